"""Reference models that take any scheme: encoder, language model, vision transformers, LeNet, fields, point clouds."""
