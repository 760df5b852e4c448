"""Model folders in Hugging Face's layout: config.json and safetensors, read without a hub or pickle."""
