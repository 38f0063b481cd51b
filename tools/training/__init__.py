"""What tools/train_builtin_model.py is made of: from scenes to rows, from rows to tensors, from tensors to a loss.

`rows` makes questions, `collate` lays them out as tokens, `cells` names what a picture shows, `losses` says how wrong
the model is, `lessons` which of it is learnt when, `learner` steps, `exam` asks what was held out. `tokenizer`, `shape`
and `folder` are the checkpoint itself.
"""
