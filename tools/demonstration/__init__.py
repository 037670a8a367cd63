"""Starts SGLang servers on this machine and shows what tree speculation does."""
