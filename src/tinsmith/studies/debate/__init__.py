"""The adversarial pair: A predicts, B challenges, A revises or defends."""
