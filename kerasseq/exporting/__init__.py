"""Models as files of other runtimes, which run them without Keras."""
