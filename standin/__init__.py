"""A rule-based server that speaks the OpenAI chat API. It is not a language model: README.md."""
