# The image of groundwatch: one for the worker, the scheduler and every other command.
ARG PYTHON=python:3.12.14-slim-bookworm

# Other people's packages change rarely: their layer is built again only when the lock does.
FROM ${PYTHON} AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY deploy/requirements.lock ./
# The virtualenv gets no pip: nothing that runs in the image installs anything.
RUN python -m venv --without-pip /opt/groundwatch \
    && pip --python /opt/groundwatch install --require-hashes -r requirements.lock

FROM packages AS wheel
COPY pyproject.toml README.md LICENSE ./
COPY groundwatch groundwatch
COPY monitor monitor
COPY workers workers
COPY alerts alerts
RUN pip wheel --no-deps --wheel-dir /dist .

FROM ${PYTHON}
LABEL org.opencontainers.image.title="groundwatch" \
      org.opencontainers.image.description="Asynchronous production monitor for LLM and RAG applications" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/groundwatch/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    GROUNDWATCH_HOME=/var/lib/groundwatch
# A fixed number, because the owner of a volume is a number and Kubernetes checks that it is not 0.
RUN groupadd --gid 10001 groundwatch \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/groundwatch \
        --shell /usr/sbin/nologin groundwatch \
    && install -d -o groundwatch -g groundwatch -m 0750 /var/lib/groundwatch
COPY --from=packages /opt/groundwatch /opt/groundwatch
# Our own code is the last and smallest layer. The last two commands import all of it, and what
# Celery loads only when it connects: a package that is missing fails the build, not the worker.
RUN --mount=type=bind,from=wheel,source=/dist,target=/dist \
    pip --python /opt/groundwatch install --no-cache-dir --no-index --no-deps /dist/*.whl \
    && pip --python /opt/groundwatch check \
    && groundwatch --version \
    && celery -A workers report
WORKDIR /var/lib/groundwatch
USER 10001:10001
# What is healthy differs between a worker and a scheduler: docker-compose.yml says it for each.
HEALTHCHECK NONE
ENTRYPOINT ["groundwatch"]
CMD ["--help"]
