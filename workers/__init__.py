"""The processes that carry steps 3 to 7: Celery workers, the scheduler, and their supervisor."""
