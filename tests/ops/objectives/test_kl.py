"""KL estimators by hand, and their exact means and gradients on three tokens."""

import numpy as np
import pytest
import torch

from tinsmith.ops.objectives.kl import k1, k2, k3


def test_kl_estimators_by_hand() -> None:
    d = np.atleast_1d(0.1)
    assert k1(d)[0] == 0.1
    assert k2(d)[0] == pytest.approx(0.005, rel=1e-15)
    assert k3(d)[0] == pytest.approx(0.00483742, abs=5e-9)
    assert k3(np.atleast_1d(1e-9))[0] == pytest.approx(5e-19, rel=1e-8)
    assert [estimator(np.atleast_1d(0.0))[0] for estimator in (k1, k2, k3)] == [0.0, 0.0, 0.0]


def enumerated() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three tokens: the logits of pi, log pi and log ref."""
    theta = torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([0.1, 0.4, -0.5], dtype=torch.float64).log_softmax(0)
    return theta, theta.log_softmax(0), ref


def test_k1_and_k3_have_the_kl_as_mean_and_k2_has_not() -> None:
    _, logp, ref = enumerated()
    pi, d = logp.exp().detach().numpy(), (logp - ref).detach().numpy()
    kl = float(np.dot(pi, d))
    assert float(np.dot(pi, k1(d))) == pytest.approx(kl, rel=1e-14)
    assert float(np.dot(pi, k3(d))) == pytest.approx(kl, rel=1e-14)
    assert abs(float(np.dot(pi, k2(d))) - kl) > 1e-2


def test_as_losses_the_estimators_have_the_expected_gradients_their_docstrings_say() -> None:
    theta, logp, ref = enumerated()

    def gradient(loss: torch.Tensor) -> np.ndarray:
        return torch.autograd.grad(loss, theta, retain_graph=True)[0].numpy()

    pi = logp.exp()
    d = logp - ref
    fixed = pi.detach()
    reverse = gradient((pi * d).sum())
    forward = gradient((ref.exp() * (ref - logp)).sum())
    np.testing.assert_allclose(gradient((fixed * d).sum()), 0.0, atol=1e-15)
    np.testing.assert_allclose(gradient((fixed * d**2 / 2).sum()), reverse, rtol=1e-12)
    np.testing.assert_allclose(gradient((fixed * (torch.exp(-d) - 1 + d)).sum()), forward)
    in_reward = (pi * torch.tensor(k1(d.detach().numpy()))).sum()
    np.testing.assert_allclose(gradient(in_reward), reverse, rtol=1e-12)
