"""How wrong the model is about cells and answers."""

from __future__ import annotations

import torch
from torch.nn import functional
from transformers import Qwen2_5_VLForConditionalGeneration

from training.collate import Batch


def see(model: Qwen2_5_VLForConditionalGeneration, batch: Batch) -> torch.Tensor | None:
    """The embeddings of all pictures, (cells, width)."""
    if batch.pixels is None:
        return None
    return torch.cat(tuple(model.model.get_image_features(batch.pixels, batch.grids).pooler_output))


def forward(model: Qwen2_5_VLForConditionalGeneration, batch: Batch, media: torch.Tensor | None) -> torch.Tensor:
    """Logits of the target positions only, (targets, vocabulary)."""
    embeds = model.model.language_model.embed_tokens(batch.ids)
    if media is not None:
        where = (batch.ids == model.config.image_token_id)[..., None].expand_as(embeds)
        embeds = embeds.masked_scatter(where, media)
    hidden = model.model.language_model(
        inputs_embeds=embeds,
        position_ids=batch.positions,
        attention_mask={"full_attention": branch_mask(batch.branch)},
        use_cache=False,
    ).last_hidden_state
    logits: torch.Tensor = model.lm_head(hidden[batch.targets >= 0])
    return logits


def branch_mask(branch: torch.Tensor) -> torch.Tensor:
    """(rows, 1, length, length) bool: causal, and only the prefix or the token's own branch."""
    length = branch.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    of_query, of_key = branch[:, :, None], branch[:, None, :]
    allowed = causal & ((of_key == 0) | (of_key == of_query)) & (of_key >= 0)
    return (allowed | torch.eye(length, dtype=torch.bool))[:, None]


def cell_loss(model: Qwen2_5_VLForConditionalGeneration, cells: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each cell's embedding, compared with the words' embeddings, against its words."""
    words = model.model.language_model.embed_tokens.weight.detach()
    return functional.cross_entropy(cells @ words.T, targets)


def answer_loss(model: Qwen2_5_VLForConditionalGeneration, batch: Batch, media: torch.Tensor | None) -> torch.Tensor:
    """Cross-entropy of the answers' tokens."""
    wanted = batch.targets >= 0
    each = functional.cross_entropy(forward(model, batch, media), batch.targets[wanted], reduction="none")
    return (each * batch.weights[wanted]).sum() / batch.weights.sum()
