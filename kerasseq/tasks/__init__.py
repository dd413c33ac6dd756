"""Tasks × architectures: one model per task, over any architecture by name or layer.

How `SequenceClassifier.fit` works, in the order of the calls; the models of `models/`
with labels, `BERT`, `GPTTask` and `ViT`, have the same base, `LabeledModel`:

1. `labeled_model.py`: `fit` gets lists from data of any source (`sources.py`), without
   rows that have an empty cell (`missing_rows.py`).
2. `_learn` takes the labels (`labels.py`) and the tokenizer from them, and builds the
   layers (`sequence_model.py`, `architectures.py`).
3. `labeled_data.labeled_rows` makes rows of ids by the preprocessor
   (`sequence_inputs.py`), and targets by the head (`heads.py`).
4. `training/label_batches.py` pads these to a few lengths, batch by batch.
5. `base.py` computes loss and metrics as means over rows or steps.
"""
