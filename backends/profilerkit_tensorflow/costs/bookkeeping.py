"""Variables, lists, control flow, devices, data, texts and files: operators that a graph needs, without arithmetic.

Most are found by their names: patterns are matched with all operators of TensorFlow.

An operator that makes a dataset runs none of the dataset's functions. An operator that reads a dataset
(``ReduceDataset``, ``DatasetToSingleElement``) runs them, and is not counted.
"""

from __future__ import annotations

import re

import tensorflow as tf

from .registry import register_free

#: Patterns of names, one paragraph for each kind.
_PATTERNS = r"""
    Variable\w* ReadVariable\w+ Assign(Variable\w+)? Var(Handle|IsInitialized)Op IsVariableInitialized
    DestroyTemporaryVariable DestroyResourceOp TemporaryVariable DisableCopyOnRead (Resource)?CountUpTo \w*Mutex\w+

    (Ref)?(Enter|Exit|Merge|NextIteration|Switch) RefSelect LoopCond NoOp Abort ControlTrigger FakeParam

    TensorArray\w* TensorList\w+ TensorMap\w+ EmptyTensor(List|Map) Stack((Close|Pop|Push)?(V2)?)
    Optional\w+ CompositeTensorVariant\w+

    AllToAll Collective(AllToAll|AssignGroup|Bcast|Gather|Initialize|Permute)\w* NcclBroadcast CheckPinned DeviceIndex
    Recv Send SyncDevice

    Assert CheckNumerics(V2)? Debug(NanCount|NumericSummary(V2)?) Print(V2)? Timestamp

    (?!Boosted)\w*Summary(V2|Writer)? Write\w+Summary CreateSummary\w+ ImportEvent
    DistributedSave MergeV2Checkpoints (Restore|Save)(Slices?|V2)? ShardedFile\w+

    (?!Reduce)\w*Dataset(V\d)? (Experimental)?Dataset(?!ToSingleElement)\w+ (Unc|C)ompressElement GetElementAtIndex
    GetOptions WindowOp Snapshot\w+Reader (Unw|W)rapDatasetVariant
    \w*Iterat\w+ \w*MemoryCache

    \w*Queue\w* Barrier\w* (Ordered)?Map(Clear|IncompleteSize|Peek|Size|Stage|Unstage)\w* (Infeed|Outfeed)\w+
    Stage\w* Unstage \w+Session(Handle|Tensor)\w* RecordInput

    \w*HashTable\w* LookupTable\w+ InitializeTable\w* GenerateVocabRemapping

    AsString ReduceJoin String\w+ Substr Unicode\w+ UnsortedSegmentJoin (Static)?Regex\w+ (De|En)codeBase64

    \w*Reader(V2)? Reader\w+ Parse\w+ (Des|S)erialize\w+ Decode(CSV|Compressed|JSONExample|PaddedRaw|ProtoV2|Raw)
    EncodeProto (Read|Write)File MatchingFiles

    (De|En)code\w*(Jpeg|Bmp|Gif|Image|Jxl|Png|WebP)\w* ExtractJpegShape

    (Add|Take)\w*Sparse\w*TensorsMap CSRSparseMatrix(Components|To\w+) \w+ToCSRSparseMatrix \w+ToSparseSetOperation
    DenseToDenseSetOperation SetSize Sparse(Concat|Cross\w*|FillEmptyRows|Reorder|Reshape|Slice|Split|ToDense)
    SparseMatrix(NNZ|Transpose|Zeros)

    Ragged(Cross|FillEmptyRows|Gather|Range) RaggedTensor(From|To)\w+(?<!Gradient)
"""
#: Operators that are in graphs alone.
_INTERNAL = """
    XlaReplicaId XlaSpmdFullToShardShape XlaSpmdShardToFullShape IsTensorFloat32Enabled
    _ArrayToList _CopyFromGpuToHost _CopyFromHostToGpu _HostRecv _HostSend _ListToArray _ReadVariablesOp _Recv _Send
    _SwitchN _TensorToHashBucketFast _VarHandlesOp
"""

_is_free = re.compile("|".join(_PATTERNS.split())).fullmatch
register_free(*filter(_is_free, dir(tf.raw_ops)), *_INTERNAL.split())
