"""Random numbers: drawing them costs nothing, arithmetic on them does."""

from __future__ import annotations

from .registry import register_free

_DRAWING = """
    AnonymousRandomSeedGenerator AnonymousSeedGenerator DeleteRandomSeedGenerator DeleteSeedGenerator
    DummySeedGenerator Multinomial NonDeterministicInts ParameterizedTruncatedNormal RandomGamma RandomIndexShuffle
    RandomPoisson RandomPoissonV2 RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt RngReadAndSkip
    RngSkip SobolSample StatefulRandomBinomial StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal
    StatefulUniform StatefulUniformFullInt StatefulUniformInt StatelessMultinomial
    StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3
    StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomNormal
    StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt
    StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2
    StatelessShuffle StatelessTruncatedNormal StatelessTruncatedNormalV2 TruncatedNormal XlaRngBitGenerator
"""
_CROPS_AND_CANDIDATES = """
    AllCandidateSampler ComputeAccidentalHits FixedUnigramCandidateSampler LearnedUnigramCandidateSampler
    LogUniformCandidateSampler RandomCrop SampleDistortedBoundingBox SampleDistortedBoundingBoxV2
    StatelessSampleDistortedBoundingBox ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler
"""

register_free(*_DRAWING.split(), *_CROPS_AND_CANDIDATES.split())
