"""Vision transformer: Dosovitskiy et al., "An image is worth 16x16 words", 2020 (arXiv:2010.11929)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    """Multi-head self-attention; the two products run inside scaled_dot_product_attention, the rest in modules."""

    def __init__(self, hidden: int, heads: int) -> None:
        """Split hidden features over heads."""
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, tokens, hidden) to the same shape."""
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class EncoderLayer(nn.Module):
    """Attention and a two-layer perceptron, each after a layer norm and beside a shortcut."""

    def __init__(self, hidden: int, heads: int, mlp: int) -> None:
        """Build a layer of hidden features, heads attention heads and mlp features within the perceptron."""
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden, eps=1e-6)
        self.attention = SelfAttention(hidden, heads)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(hidden, mlp), nn.GELU(), nn.Linear(mlp, hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, tokens, hidden) to the same shape."""
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class VisionTransformer(nn.Module):
    """Patches as tokens behind a class token, an encoder, and a linear layer on what the class token became."""

    def __init__(
        self, num_classes: int, image_size: int, patch_size: int, hidden: int, layers: int, heads: int, mlp: int
    ) -> None:
        """Build the network; vit_b_16 explains the arguments."""
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"vit: image_size must be a multiple of patch_size, got {image_size} and {patch_size}")
        if hidden % heads:
            raise ValueError(f"vit: hidden must be a multiple of heads, got {hidden} and {heads}")
        patches = (image_size // patch_size) ** 2
        self.patch_embedding = nn.Conv2d(3, hidden, patch_size, stride=patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.position_embedding = nn.Parameter(torch.empty(1, patches + 1, hidden).normal_(std=0.02))
        self.encoder = nn.Sequential(*(EncoderLayer(hidden, heads, mlp) for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden, eps=1e-6)
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, 3, image_size, image_size) images to (N, num_classes) logits."""
        patches = self.patch_embedding(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), patches], dim=1)
        tokens = self.norm(self.encoder(tokens + self.position_embedding))
        logits: Tensor = self.head(tokens[:, 0])
        return logits


def vit_b_16(
    num_classes: int = 1000,
    image_size: int = 224,
    patch_size: int = 16,
    hidden: int = 768,
    layers: int = 12,
    heads: int = 12,
    mlp: int = 3072,
) -> VisionTransformer:
    """Build ViT-B/16 of Dosovitskiy et al. (2020): (N, 3, image_size, image_size) -> (N, num_classes) logits.

    By default: 86,567,656 parameters and, for one image, 17,563,828,224 MACs. With the tokens T = 197 (196 patches and
    the class token) that is the patch embedding, 196 * 768 * 768; twelve times the projections, 4 * T * 768 * 768, both
    products of attention, 2 * T * T * 768, and the perceptron, 2 * T * 768 * 3072; and the head, 768 * 1000. Without
    attention's products (715,327,488 MACs) it is 16,848,500,736.

    Raises:
        ValueError: if image_size is no multiple of patch_size, or hidden no multiple of heads.

    Example:
        >>> vit_b_16(10, image_size=32, patch_size=8, hidden=16, layers=2, heads=2, mlp=32)(
        ...     torch.zeros(2, 3, 32, 32)
        ... ).shape
        torch.Size([2, 10])
    """
    return VisionTransformer(num_classes, image_size, patch_size, hidden, layers, heads, mlp)
