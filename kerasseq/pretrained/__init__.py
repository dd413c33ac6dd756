"""Pretrained checkpoints of Hugging Face and KerasHub, read and written.

`checkpoints.py` has `from_pretrained` and `save_pretrained`. Each family of models has
one module (`bert.py`, `experts.py`, `gpt2.py`, `llama.py`, `t5.py`, `vit.py`) with a
table of the names of its tensors and weights. `peft.py` and `keras_hub_lora.py` read
adapters by these tables.
"""
