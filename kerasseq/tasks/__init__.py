"""Tasks × architectures: one model per task, over any architecture by name or layer.

How `fit` of a model works, here of `SequenceClassifier`, in the order of the calls:

1. `base.py`: `TaskModel.fit`, which all models share, keeps its arguments as a
   `FitCall`, and asks `fit_call.py` for those of Keras.
2. `labeled_model.py`: `training_data` gets lists from columns and tables
   (`input_rows.py`) or streams (`sources.py`), without rows that have an empty cell
   (`labeled_data.py`). `_learn` takes the labels (`labels.py`) and the tokenizer from
   them, and builds the layers (`sequence_model.py`, `architectures.py`).
3. `labeled_data.labeled_rows` makes rows of ids by the preprocessor
   (`preprocessor.py`), and targets by the head (`heads.py`).
4. `fit_call.py` asks the rows (`training/label_batches.py`) to hold some out for
   validation, and for batches of the others, of a few lengths (`training/batches.py`).
5. `base.py` trains on them by Keras; loss and metrics are means over rows or steps
   (`loss_means.py`).

`evaluate` prepares its data by `held_out_data`, as `fit` does those for validation;
`predict` (`scoring.py`) by `predicted`.

Other models have other rows: a text that is cut into blocks (`models/text_blocks.py`),
answers (`models/answer_rows.py`), pairs (`models/seq2seq/pairs.py`), documents
(`models/bert/bert_training.py`), windows of a table (`series/table_training.py`).
"""
