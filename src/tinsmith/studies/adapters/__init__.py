"""LoRA, DoRA, QLoRA and QDoRA beside each other."""
