"""Conversations as text: messages, and the templates that write them."""
