"""Operators that move, make or choose data: they do no arithmetic on floats, and are known to cost none."""

from __future__ import annotations

from .registry import register_free

_COPIES = """
    Bitcast Cast Complex Conj Copy CopyHost DebugGradientIdentity DebugGradientRefIdentity DebugIdentity
    DebugIdentityV2 DebugIdentityV3 DeepCopy EnsureShape GuaranteeConst Identity IdentityN Imag PreventGradient Real
    RefIdentity Snapshot StopGradient XlaOptimizationBarrier XlaSharding _EagerConst _HostCast
"""
_REARRANGING = """
    BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag BatchToSpace BatchToSpaceND BroadcastTo
    Concat ConcatOffset ConcatV2 ConjugateTranspose DataFormatDimMap DataFormatVecPermute DepthToSpace Diag DiagPart
    DynamicPartition DynamicStitch ExpandDims ExtractImagePatches ExtractVolumePatches InplaceUpdate MatrixBandPart
    MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2
    MatrixSetDiagV3 MirrorPad Pack Pad PadV2 ParallelConcat ParallelDynamicStitch Reshape Reverse ReverseSequence
    ReverseV2 Roll Slice SpaceToBatch SpaceToBatchND SpaceToDepth Split SplitV Squeeze StridedSlice StridedSliceAssign
    StridedSliceGrad TensorStridedSliceUpdate Tile Transpose Unpack XlaConcatND XlaDynamicSlice XlaDynamicUpdateSlice
    XlaPad XlaSplitND _ParallelConcatStart _ParallelConcatUpdate _ScopedAllocatorConcat _ScopedAllocatorSplit
"""
_MAKING = """
    Const Empty Fill HostConst ImmutableConst LinSpace OneHot OnesLike Range ZerosLike
"""
#: Drawing random numbers costs nothing; arithmetic on them does.
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
_SHAPES = """
    BroadcastArgs BroadcastGradientArgs InvertPermutation Rank Shape ShapeN Size UnravelIndex
    XlaRemoveDynamicDimensionSize XlaSetBound XlaSetDynamicDimensionSize
"""
_CHOOSING = """
    ApproxTopK ArgMax ArgMin BoostedTreesBucketize Bucketize Gather GatherNd GatherV2 InTopK InTopKV2 ListDiff
    LowerBound NthElement ResourceGather ResourceGatherNd ResourceScatterNdUpdate ResourceScatterUpdate
    ResourceStridedSliceAssign ScatterNdUpdate ScatterUpdate Select SelectV2 TensorScatterUpdate TopK TopKUnique TopKV2
    TopKWithUnique Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 UpperBound Where XlaGather XlaKeyValueSort
    XlaSort
"""
_COMPARING = """
    All Any ApproximateEqual Equal Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual LogicalAnd LogicalNot
    LogicalOr NotEqual ToBool
"""
_INTEGERS = """
    BitwiseAnd BitwiseOr BitwiseXor Fingerprint Invert LeftShift PopulationCount RightShift
"""

for _names in (
    *(_COPIES, _REARRANGING, _MAKING, _DRAWING, _CROPS_AND_CANDIDATES),
    *(_SHAPES, _CHOOSING, _COMPARING, _INTEGERS),
):
    register_free(*_names.split())
