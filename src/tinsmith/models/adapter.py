"""Trainable weights of a session: a low-rank adapter beside a frozen base, or the whole base.

One base serves many adapters; an adapter is never merged for sampling. A fresh one changes nothing: B is zero, and a
DoRA magnitude is the row norm of the base in its stored form (quantised, if it is).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import torch

from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import HEAD_PLACE, Decoder, Place, Site
from tinsmith.models.names import ROUTER
from tinsmith.models.slots import Slot
from tinsmith.ops.functions import Weight
from tinsmith.ops.linear import Linear, LowRank
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive, uniform

_TARGETS: dict[Site, tuple[str, ...]] = {
    Site.QKV: ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    Site.O: ("self_attn.o_proj",),
    Site.GATE_UP: ("mlp.gate_proj", "mlp.up_proj"),
    Site.ROUTER: (ROUTER,),
    Site.DOWN: ("mlp.down_proj",),
    Site.HEAD: ("lm_head",),
}


@dataclass(slots=True, eq=False, weakref_slot=True)
class Adapter:
    """Trained weights with their published names (PEFT's, without its prefix)."""

    spec: AdapterSpec
    decoder: Decoder
    """Base that it computes on; for `full`, the trained copy itself."""
    low: dict[Place, LowRank] = field(default_factory=dict[Place, LowRank])
    slots: tuple[Slot, ...] = ()
    version: int = 0
    """Number of changes to its weights."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Adapted linear layers by published name; none for `full`."""
        suffix = ".lora_A.weight"
        return tuple(slot.name.removesuffix(suffix) for slot in self.slots if slot.name.endswith(suffix))

    def weights(self) -> list[Weight]:
        """Every trained weight once, in the slots' order."""
        return list({id(slot.weight): slot.weight for slot in self.slots}.values())

    def gradient_sources(self) -> list[tuple[Weight, list[tuple[Weight, bool]]]]:
        """For each trained weight, the weights whose buffers add up to its gradient, and whether transposed.

        A tied head has a buffer of its own: were both uses to add into one, their order would follow micro-batches.
        """
        head = self.decoder.head.base[0]
        tied = self.spec.kind is AdapterKind.FULL and self.decoder.config.tied
        sources: list[tuple[Weight, list[tuple[Weight, bool]]]] = []
        for weight in self.weights():
            own = [(weight, False)]
            if tied and weight is self.decoder.embedding and isinstance(head, Weight):
                own.append((head, True))
            sources.append((weight, own))
        return sources

    def buffers(self) -> list[Weight]:
        """Every weight with a gradient buffer."""
        return [source for _, sources in self.gradient_sources() for source, _ in sources]

    def changed(self) -> None:
        """Update everything derived from the weights: DoRA's norms, a tied head."""
        self.version += 1
        self.decoder.refresh_norms(self.low)
        for low in self.low.values():
            release_untargeted(low)
        if self.spec.kind is AdapterKind.FULL:
            self.decoder.refresh_tied_head()

    def snapshot(self) -> Adapter:
        """Return a frozen copy that later training does not change."""
        return copy(self, lambda weight: Weight(weight.value.clone()))


def check_spread(kind: AdapterKind) -> None:
    """Reject a kind that cannot be trained on a base spread over shards.

    Raises:
        ConfigError: naming those that can.
    """
    if kind is AdapterKind.FULL:
        raise ConfigError(
            "all weights of a base that is spread over shards cannot be trained",
            field="kind",
            value=kind.value,
            allowed="lora, dora, qlora, qdora",
            fix="serve it without shards, or train an adapter",
        )


def check_router(spec: AdapterSpec, config: DecoderConfig) -> None:
    """Reject training of routers in a model without any.

    Raises:
        ConfigError: the model is not a mixture.
    """
    if spec.train_router and config.mixture is None:
        raise ConfigError(
            "this model is no mixture of experts: it has no router to train",
            field="train_router",
            value=True,
            allowed="false",
            fix="drop :router from the base model's name",
        )


def create_adapter(decoder: Decoder, spec: AdapterSpec, *, targets: Collection[str] | None = None) -> Adapter:
    """Create a trainable adapter on `decoder`; the same spec gives the same bits on any machine.

    It sits on the spec's groups of linear layers, or of those only on `targets` (as `target_names`
    spells them). A is uniform within 1 / sqrt(in) (PEFT's Kaiming initialisation), drawn from a seed
    derived from the spec's seed and the target's name; B is zero.

    Raises:
        ConfigError: a target that the decoder does not have, or a kind that does not fit its base.
    """
    if spec.kind.quantised != is_quantised(decoder):
        raise ConfigError(
            "the base is not held as this kind of adapter needs it",
            field="kind",
            value=spec.kind.value,
            allowed=", ".join(kind for kind in AdapterKind if kind.quantised != spec.kind.quantised),
        )
    check_router(spec, decoder.config)
    if len(decoder.layers) < decoder.config.num_layers:
        check_spread(spec.kind)
    if spec.kind is AdapterKind.FULL:
        adapter = Adapter(spec, _whole_copy(decoder))
        adapter.slots = adapter.decoder.slots
    else:
        adapter = Adapter(spec, decoder)
        slots: list[Slot] = []
        known = {name for place in decoder.linears() for name in target_names(place)}
        for name in sorted(set(targets or ()) - known):
            raise ConfigError("the model has no such linear layer", field="targets", value=name)
        for place, linear in decoder.linears().items():
            names = target_names(place) if _wanted(spec, place.site) else ()
            chosen = [name for name in names if targets is None or name in targets]
            if chosen:
                adapter.low[place] = _low_rank(spec, place, linear, chosen, slots, decoder.kernels.device)
        adapter.slots = tuple(slots)
        _initial_magnitudes(adapter)
    for weight in adapter.buffers():
        weight.train()
    adapter.changed()
    return adapter


def target_names(place: Place) -> tuple[str, ...]:
    """Published names (without `.weight`) of the matrices that are side by side at a place."""
    names = _TARGETS[place.site]
    if place == HEAD_PLACE:
        return names
    if place.expert >= 0:
        names = tuple(name.replace("mlp.", f"mlp.experts.{place.expert}.") for name in names)
    return tuple(f"model.layers.{place.layer}.{name}" for name in names)


def is_quantised(decoder: Decoder) -> bool:
    """True if the decoder holds linear weights in NF4."""
    return any(linear.is_nf4 for linear in decoder.linears().values())


def _wanted(spec: AdapterSpec, site: Site) -> bool:
    if site is Site.HEAD:
        return spec.train_unembed
    if site is Site.ROUTER:
        return spec.train_router
    return spec.train_attn if site in (Site.QKV, Site.O) else spec.train_mlp


def _low_rank(
    spec: AdapterSpec, place: Place, linear: Linear, names: list[str], slots: list[Slot], device: torch.device
) -> LowRank:
    """Create the low-rank part on `names` at one place, and append their slots to `slots`."""
    bounds = [sum(linear.widths[:i]) for i in range(len(linear.widths) + 1)]
    columns = tuple((bounds[i], bounds[i + 1]) for i, name in enumerate(target_names(place)) if name in names)
    sizes = [end - begin for begin, end in columns]
    rank = spec.rank
    drawn = [
        uniform(derive(spec.seed, "lora_A", name), (rank, linear.in_size), 1.0 / math.sqrt(linear.in_size))
        for name in names
    ]
    a = Weight(torch.cat([torch.from_numpy(x).t() for x in drawn], dim=1).contiguous().to(device))
    b = tuple(Weight(torch.zeros(rank, size, device=device)) for size in sizes)
    magnitude = Weight(torch.zeros(linear.out_size, device=device)) if spec.kind.decomposed else None
    for i, name in enumerate(names):
        slots.append(Slot(f"{name}.lora_A.weight", a, (i * rank, (i + 1) * rank), transposed=True))
        slots.append(Slot(f"{name}.lora_B.weight", b[i], transposed=True))
        if magnitude is not None:
            slots.append(Slot(f"{name}.lora_magnitude_vector", magnitude, columns[i]))
    return LowRank(a=a, b=b, columns=columns, scaling=spec.scaling, magnitude=magnitude)


def _initial_magnitudes(adapter: Adapter) -> None:
    if adapter.spec.kind.decomposed:
        adapter.decoder.refresh_norms(adapter.low)
        for low in adapter.low.values():
            if low.magnitude is not None and low.norm is not None:  # none if the base is elsewhere
                low.magnitude.value.copy_(low.norm)


def release_untargeted(low: LowRank) -> None:
    """Set the gain of columns without a target to 1: a step may have changed their magnitude."""
    if low.magnitude is None or low.gain is None or low.norm is None:
        return
    if sum(end - begin for begin, end in low.columns) == low.gain.numel():
        return
    free = torch.ones_like(low.gain, dtype=torch.bool)
    for begin, end in low.columns:
        free[begin:end] = False
    low.magnitude.value[free] = low.norm[free]
    low.gain[free] = 1.0


def copy(adapter: Adapter, clone: Callable[[Weight], Weight]) -> Adapter:
    """Copy an adapter's weights by `clone`, each once; a low-rank copy shares the frozen base."""
    if adapter.spec.kind is AdapterKind.FULL:
        decoder = copy_decoder(adapter.decoder, clone)
        return Adapter(adapter.spec, decoder, slots=decoder.slots)
    copied = {id(weight): clone(weight) for weight in adapter.weights()}
    low = {
        place: LowRank(
            a=copied[id(part.a)],
            b=tuple(copied[id(b)] for b in part.b),
            columns=part.columns,
            scaling=part.scaling,
            magnitude=None if part.magnitude is None else copied[id(part.magnitude)],
            norm=None if part.norm is None else part.norm.clone(),
            gain=None if part.gain is None else part.gain.clone(),
        )
        for place, part in adapter.low.items()
    }
    slots = tuple(Slot(s.name, copied[id(s.weight)], s.columns, s.transposed) for s in adapter.slots)
    return Adapter(adapter.spec, adapter.decoder, low, slots)


def _whole_copy(decoder: Decoder) -> Decoder:
    """Create a copy in full precision for training."""
    if not decoder.packed:
        return copy_decoder(decoder, decoder.held)
    return build_decoder(decoder.config, decoder.published().as_fp32(), decoder.kernels)


def copy_decoder(decoder: Decoder, clone: Callable[[Weight], Weight]) -> Decoder:
    """Copy a full-precision decoder's weights by `clone`, each once."""
    known: dict[int, Weight] = {}
    assert isinstance(decoder.embedding, Weight), "in full precision"

    def once(weight: Weight) -> Weight:
        return known.setdefault(id(weight), clone(weight))

    def linear(old: Linear) -> Linear:
        base = tuple(once(b) for b in old.base if isinstance(b, Weight))
        return replace(old, base=base, bias=None if old.bias is None else once(old.bias))

    layers = tuple(
        replace(
            layer.with_linears(linear),
            input_norm=once(layer.input_norm),
            post_norm=once(layer.post_norm),
            q_norm=None if layer.q_norm is None else once(layer.q_norm),
            k_norm=None if layer.k_norm is None else once(layer.k_norm),
        )
        for layer in decoder.layers
    )
    return replace(
        decoder,
        embedding=once(decoder.embedding),
        layers=layers,
        final_norm=once(decoder.final_norm),
        head=linear(decoder.head),
        slots=tuple(Slot(s.name, once(s.weight), s.columns, s.transposed) for s in decoder.slots),
    )
