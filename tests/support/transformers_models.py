"""Tiny models of transformers, from their configurations alone: class, configuration and inputs of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import nn

__all__ = [
    "FORMULATED",
    "FRAMES",
    "GROUPED_SIZES",
    "MODELS",
    "SIZES",
    "TEXT",
    "B",
    "S",
    "ids",
    "make_model",
    "quiet",
    "words",
]

tf: Any = transformers

B, S = 2, 16
TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
IMAGE = {key: TEXT[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
PATCHED: dict[str, Any] = {**IMAGE, "image_size": 32, "patch_size": 8}
GROUPED = {**TEXT, "num_key_value_heads": 2}
EXPERTS = {**GROUPED, "num_experts_per_tok": 2}
SEQUENCES: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "vocab_size": 99,
}
SOUND: dict[str, Any] = {
    **IMAGE,
    "vocab_size": 32,
    "conv_dim": [16, 16],
    "conv_stride": [5, 2],
    "conv_kernel": [10, 3],
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
STAGES: dict[str, Any] = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
DETECTOR: dict[str, Any] = {
    "d_model": 32,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "decoder_layers": 1,
    "num_queries": 10,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}


def words() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.arange(B * S).reshape(B, S) + 3}


def two_texts() -> dict[str, torch.Tensor]:
    return {**words(), "decoder_input_ids": words()["input_ids"][:, :8]}


def picture(side: int = 32) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.ones(B, 3, side, side)}


def sound() -> dict[str, torch.Tensor]:
    return {"input_values": torch.ones(B, 1600)}


def text_with_picture() -> dict[str, torch.Tensor]:
    """16 patches in the place of 16 tokens of a picture."""
    ids = torch.full((1, 24), 5)
    ids[0, 2:18] = 98
    return {"input_ids": ids, "pixel_values": torch.ones(1, 3, 32, 32)}


def residual(**settings: Any) -> Any:
    return tf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 32], depths=[1, 1, 1, 1], layer_type="basic", **settings
    )


Described = tuple[Callable[[], Any], Callable[[], dict[str, Any]]]

#: By the class of the model: its configuration, and its inputs.
MODELS: dict[str, Described] = {
    "DistilBertModel": (
        lambda: tf.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=99),
        words,
    ),
    "RobertaForMaskedLM": (lambda: tf.RobertaConfig(**TEXT), words),
    "DebertaV2Model": (
        lambda: tf.DebertaV2Config(**TEXT, relative_attention=True, pos_att_type=["c2p", "p2c"]),
        words,
    ),
    "ModernBertModel": (lambda: tf.ModernBertConfig(**TEXT, cls_token_id=1, sep_token_id=2), words),
    "OPTForCausalLM": (
        lambda: tf.OPTConfig(
            hidden_size=32,
            ffn_dim=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            vocab_size=99,
            word_embed_proj_dim=32,
        ),
        words,
    ),
    "BloomForCausalLM": (lambda: tf.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=99), words),
    "FalconForCausalLM": (
        lambda: tf.FalconConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=99),
        words,
    ),
    "GPTNeoXForCausalLM": (lambda: tf.GPTNeoXConfig(**TEXT), words),
    "PhiForCausalLM": (lambda: tf.PhiConfig(**TEXT), words),
    "MistralForCausalLM": (lambda: tf.MistralConfig(**GROUPED, sliding_window=8), words),
    "Qwen2ForCausalLM": (lambda: tf.Qwen2Config(**GROUPED), words),
    "Gemma2ForCausalLM": (lambda: tf.Gemma2Config(**GROUPED, head_dim=8), words),
    "Qwen3MoeForCausalLM": (
        lambda: tf.Qwen3MoeConfig(**EXPERTS, num_experts=4, moe_intermediate_size=16, head_dim=8),
        words,
    ),
    "GptOssForCausalLM": (lambda: tf.GptOssConfig(**EXPERTS, num_local_experts=4, head_dim=8), words),
    "DeepseekV3ForCausalLM": (
        lambda: tf.DeepseekV3Config(
            **{**EXPERTS, "num_key_value_heads": 4, "n_routed_experts": 8, "n_group": 2, "topk_group": 1},
            moe_intermediate_size=16,
            first_k_dense_replace=1,
            q_lora_rank=16,
            kv_lora_rank=16,
            qk_rope_head_dim=8,
            qk_nope_head_dim=8,
            v_head_dim=8,
        ),
        words,
    ),
    "Mamba2ForCausalLM": (
        lambda: tf.Mamba2Config(
            hidden_size=32, state_size=8, num_hidden_layers=2, vocab_size=99, num_heads=8, head_dim=8, chunk_size=8
        ),
        words,
    ),
    "RwkvForCausalLM": (lambda: tf.RwkvConfig(hidden_size=32, num_hidden_layers=2, vocab_size=99), words),
    "BartForConditionalGeneration": (lambda: tf.BartConfig(**SEQUENCES), two_texts),
    "MarianMTModel": (lambda: tf.MarianConfig(**SEQUENCES, pad_token_id=1, decoder_start_token_id=0), two_texts),
    "SwinModel": (
        lambda: tf.SwinConfig(
            image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4
        ),
        picture,
    ),
    "ConvNextForImageClassification": (lambda: tf.ConvNextConfig(**STAGES), picture),
    "SegformerForSemanticSegmentation": (
        lambda: tf.SegformerConfig(**STAGES, num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16),
        lambda: picture(64),
    ),
    "Dinov2Model": (lambda: tf.Dinov2Config(**PATCHED), picture),
    "DetrForObjectDetection": (
        lambda: tf.DetrConfig(
            **DETECTOR, encoder_layers=1, use_timm_backbone=False, backbone_config=residual(out_features=["stage4"])
        ),
        lambda: picture(64),
    ),
    "YolosForObjectDetection": (
        lambda: tf.YolosConfig(**{**PATCHED, "image_size": [32, 32]}, num_detection_tokens=5),
        picture,
    ),
    "CLIPModel": (
        lambda: tf.CLIPConfig(text_config={**TEXT, "eos_token_id": 34}, vision_config=PATCHED, projection_dim=16),
        lambda: {**words(), **picture()},
    ),
    "LlavaForConditionalGeneration": (
        lambda: tf.LlavaConfig(
            text_config=tf.LlamaConfig(**GROUPED),
            vision_config=tf.CLIPVisionConfig(**PATCHED),
            image_token_index=98,
            vision_feature_layer=-1,
        ),
        text_with_picture,
    ),
    "Wav2Vec2Model": (lambda: tf.Wav2Vec2Config(**SOUND), sound),
    "PerceiverModel": (
        lambda: tf.PerceiverConfig(
            num_latents=8,
            d_latents=32,
            d_model=32,
            num_blocks=1,
            num_self_attends_per_block=2,
            num_self_attention_heads=4,
            num_cross_attention_heads=4,
        ),
        lambda: {"inputs": torch.ones(B, S, 32)},
    ),
}


SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
}
GROUPED_SIZES = {**SIZES, "num_key_value_heads": 2}
#: Frames of a sound.
FRAMES = 40


def ids(length: int = S) -> torch.Tensor:
    return torch.arange(B * length).reshape(B, length) % 90


def both() -> dict[str, torch.Tensor]:
    return {"input_ids": ids(), "decoder_input_ids": ids(S // 2)}


#: Models whose MACs a closed form gives: class, configuration and inputs.
FORMULATED: dict[str, tuple[str, Callable[[], Any], Callable[[], dict[str, Any]]]] = {
    "bert": ("BertModel", lambda: tf.BertConfig(**SIZES), lambda: {"input_ids": ids()}),
    "gpt2": (
        "GPT2LMHeadModel",
        lambda: tf.GPT2Config(n_embd=32, n_layer=3, n_head=4, vocab_size=99),
        lambda: {"input_ids": ids()},
    ),
    "llama": ("LlamaForCausalLM", lambda: tf.LlamaConfig(**GROUPED_SIZES), lambda: {"input_ids": ids()}),
    "mixtral": (
        "MixtralForCausalLM",
        lambda: tf.MixtralConfig(**GROUPED_SIZES, num_local_experts=5, num_experts_per_tok=2),
        lambda: {"input_ids": ids()},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        lambda: tf.T5Config(
            d_model=32, d_kv=6, d_ff=48, num_layers=3, num_decoder_layers=2, num_heads=4, vocab_size=99
        ),
        both,
    ),
    "vit": (
        "ViTForImageClassification",
        lambda: tf.ViTConfig(**{**SIZES, "vocab_size": None}, image_size=32, patch_size=8, num_labels=7),
        lambda: {"pixel_values": torch.ones(B, 3, 32, 32)},
    ),
    "whisper": (
        "WhisperForConditionalGeneration",
        lambda: tf.WhisperConfig(
            d_model=32,
            encoder_layers=2,
            decoder_layers=3,
            encoder_ffn_dim=48,
            decoder_ffn_dim=40,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            num_mel_bins=8,
            vocab_size=99,
            max_source_positions=FRAMES // 2,
            max_target_positions=32,
            decoder_start_token_id=1,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        ),
        lambda: {"input_features": torch.ones(B, 8, FRAMES), "decoder_input_ids": ids(S // 2)},
    ),
    "mamba": (
        "MambaForCausalLM",
        lambda: tf.MambaConfig(hidden_size=32, state_size=6, num_hidden_layers=3, vocab_size=99),
        lambda: {"input_ids": ids()},
    ),
}


@contextmanager
def quiet() -> Iterator[None]:
    """Have transformers say nothing of kernels that are not installed."""
    level = tf.logging.get_verbosity()
    tf.logging.set_verbosity_error()
    try:
        yield
    finally:
        tf.logging.set_verbosity(level)


def make_model(kind: str, config: Any, device: str = "cpu") -> nn.Module:
    """Return a model of a class, with weights unless it is on the device meta."""
    with quiet(), torch.device(device):
        model: nn.Module = getattr(tf, kind)(config)
    return model
