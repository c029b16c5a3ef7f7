"""Asynchronous production monitor for LLM and RAG applications."""
