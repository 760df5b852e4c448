"""Does RL teach more than supervised fine-tuning on the same papers?"""
