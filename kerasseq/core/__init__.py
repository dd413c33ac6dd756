"""What everything else stands on. Loading it loads no Keras."""
