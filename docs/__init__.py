"""The documentation: pages, tutorials, and the tools that make pages of tutorials."""
