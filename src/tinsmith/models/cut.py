"""Shallow cut of a decoder: its first layers between its embedding and its head, on the same weights.

Its output is meaningless, but every step has the shape and the values of the whole model.
"""

from __future__ import annotations

from dataclasses import replace

from tinsmith.models.decoder import Decoder, Layer
from tinsmith.models.slots import Slot
from tinsmith.ops.functions import Weight
from tinsmith.ops.linear import Linear
from tinsmith.ops.packed import Packed


def cut(decoder: Decoder, *, layers: int, vocab: int, positions: int) -> Decoder:
    """Return the first `layers` layers of `decoder`, for the first `vocab` tokens and `positions` positions.

    Layers and norms are shared with the decoder, and the embedding is a view; only a narrower head is a copy. In
    published form, both are copies. Each limit applies only if the decoder has more.
    """
    config = replace(
        decoder.config,
        num_layers=min(layers, decoder.config.num_layers),
        vocab_size=min(vocab, decoder.config.vocab_size),
        max_positions=min(positions, decoder.config.max_positions),
    )
    first_layers = _first_layers(decoder.layers, config.num_layers)
    embedding, head = decoder.embedding, decoder.head
    stands_for = {id(weight): weight for layer in first_layers for weight in _weights(layer)}
    stands_for[id(decoder.final_norm)] = decoder.final_norm
    if config.vocab_size < decoder.config.vocab_size:
        rows = config.vocab_size
        embedding = Weight(embedding.rows(0, rows) if isinstance(embedding, Packed) else embedding.value[:rows])
        head = _narrow(head, config.vocab_size)
    if isinstance(embedding, Weight):
        stands_for[id(decoder.embedding)] = embedding
    for old, new in zip(decoder.head.base, head.base, strict=True):
        if isinstance(old, Weight) and isinstance(new, Weight):
            stands_for[id(old)] = new
    slots = tuple(
        Slot(
            slot.name,
            stands_for[id(slot.weight)],
            (0, config.vocab_size) if slot.weight is decoder.head.base[0] else slot.columns,
            slot.transposed,
        )
        for slot in decoder.slots
        if id(slot.weight) in stands_for
    )
    return replace(decoder, config=config, embedding=embedding, layers=first_layers, head=head, slots=slots, packed={})


def _first_layers(layers: tuple[Layer, ...], count: int) -> tuple[Layer, ...]:
    """Return the first layers; the last of them is a mixture if the model has any."""
    first = layers[:count]
    sparse = next((layer for layer in layers if layer.router is not None), None)
    if sparse is None or any(layer.router is not None for layer in first):
        return first
    return (*first[:-1], sparse)


def _narrow(head: Linear, vocab: int) -> Linear:
    (base,) = head.base
    assert isinstance(base, (Weight, Packed)), "a head is never held as NF4"
    narrowed = base.rows(0, vocab).t() if isinstance(base, Packed) else base.value[:, :vocab]
    return replace(head, base=(Weight(narrowed.contiguous()),), widths=(vocab,))


def _weights(layer: Layer) -> list[Weight]:
    linears = layer.linears(0).values()
    maybe = [layer.input_norm, layer.post_norm, layer.q_norm, layer.k_norm]
    maybe += [linear.bias for linear in linears]
    maybe += [base for linear in linears for base in linear.base if isinstance(base, Weight)]
    return [weight for weight in maybe if weight is not None]
