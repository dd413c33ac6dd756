"""What the tests of tasks share."""

import keras


def array(value):
    return keras.ops.convert_to_numpy(value)
