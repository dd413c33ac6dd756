from typing import Any

from keras import callbacks as callbacks
from keras import initializers as initializers
from keras import layers as layers
from keras import metrics as metrics

class Layer:
    def __getattr__(self, name: str) -> Any: ...

class Model(Layer): ...

class StatelessScope:
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
