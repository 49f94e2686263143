"""Reading, parsing and queueing data, strings, hash tables, sparse and ragged tensors: no arithmetic on floats.

Making a dataset runs none of its functions. An operator that reduces a dataset (``ReduceDataset``) runs them, and is
not counted.
"""

from __future__ import annotations

from .registry import register_free

_DATASETS = """
    AssertCardinalityDataset AssertNextDataset AssertPrevDataset AutoShardDataset BatchDataset BatchDatasetV2
    CSVDataset CSVDatasetV2 CacheDataset CacheDatasetV2 ChooseFastestBranchDataset ChooseFastestDataset CompressElement
    ConcatenateDataset DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3 DataServiceDatasetV4
    DatasetCardinality DatasetFingerprint DatasetFromGraph DatasetToGraph DatasetToGraphV2 DatasetToTFRecord
    DenseToSparseBatchDataset DirectedInterleaveDataset ExperimentalAssertNextDataset ExperimentalAutoShardDataset
    ExperimentalCSVDataset ExperimentalChooseFastestDataset ExperimentalDatasetCardinality
    ExperimentalDatasetToTFRecord ExperimentalDenseToSparseBatchDataset ExperimentalDirectedInterleaveDataset
    ExperimentalGroupByReducerDataset ExperimentalGroupByWindowDataset ExperimentalIgnoreErrorsDataset
    ExperimentalLMDBDataset ExperimentalMapAndBatchDataset ExperimentalMapDataset ExperimentalMatchingFilesDataset
    ExperimentalMaxIntraOpParallelismDataset ExperimentalNonSerializableDataset ExperimentalParallelInterleaveDataset
    ExperimentalParseExampleDataset ExperimentalPrivateThreadPoolDataset ExperimentalRandomDataset
    ExperimentalRebatchDataset ExperimentalScanDataset ExperimentalSleepDataset ExperimentalSlidingWindowDataset
    ExperimentalSqlDataset ExperimentalTakeWhileDataset ExperimentalThreadPoolDataset ExperimentalUnbatchDataset
    ExperimentalUniqueDataset FilterByLastComponentDataset FilterDataset FinalizeDataset FixedLengthRecordDataset
    FixedLengthRecordDatasetV2 FlatMapDataset GeneratorDataset GetElementAtIndex GetOptions GlobalShuffleDataset
    GroupByReducerDataset GroupByWindowDataset IgnoreErrorsDataset IndexFlatMapDataset InterleaveDataset LMDBDataset
    LegacyParallelInterleaveDatasetV2 ListDataset ListSnapshotChunksDataset LoadDataset MapAndBatchDataset MapDataset
    MatchingFilesDataset MaxIntraOpParallelismDataset ModelDataset NonSerializableDataset OptimizeDataset
    OptimizeDatasetV2 OptionsDataset PaddedBatchDataset PaddedBatchDatasetV2 ParallelBatchDataset ParallelFilterDataset
    ParallelInterleaveDataset ParallelInterleaveDatasetV2 ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4
    ParallelMapDataset ParallelMapDatasetV2 ParseExampleDataset ParseExampleDatasetV2 PrefetchDataset
    PrivateThreadPoolDataset RandomDataset RandomDatasetV2 RangeDataset RebatchDataset RebatchDatasetV2 RegisterDataset
    RegisterDatasetV2 RepeatDataset RewriteDataset SamplingDataset SaveDataset SaveDatasetV2 ScanDataset ShardDataset
    ShuffleAndRepeatDataset ShuffleAndRepeatDatasetV2 ShuffleDataset ShuffleDatasetV2 ShuffleDatasetV3 SkipDataset
    SleepDataset SlidingWindowDataset SnapshotChunkDataset SnapshotDataset SnapshotDatasetReader SnapshotDatasetV2
    SnapshotNestedDatasetReader SparseTensorSliceDataset SqlDataset TFRecordDataset TFRecordDatasetV2 TakeDataset
    TakeWhileDataset TensorDataset TensorSliceDataset TextLineDataset ThreadPoolDataset UnbatchDataset
    UncompressElement UniqueDataset UnwrapDatasetVariant WeightedFlatMapDataset WindowDataset WindowOp
    WrapDatasetVariant ZipDataset
"""
_ITERATORS = """
    AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 AnonymousMemoryCache AnonymousMultiDeviceIterator
    AnonymousMultiDeviceIteratorV3 DeleteIterator DeleteMemoryCache DeleteMultiDeviceIterator DeserializeIterator
    DummyIterationCounter DummyMemoryCache ExperimentalIteratorGetDevice Iterator IteratorFromStringHandle
    IteratorFromStringHandleV2 IteratorGetDevice IteratorGetModelProto IteratorGetNext IteratorGetNextAsOptional
    IteratorGetNextSync IteratorToStringHandle IteratorV2 MakeIterator MultiDeviceIterator
    MultiDeviceIteratorFromStringHandle MultiDeviceIteratorGetNextFromShard MultiDeviceIteratorInit
    MultiDeviceIteratorToStringHandle OneShotIterator SerializeIterator
"""
_QUEUES = """
    Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize BarrierTakeMany DeleteSessionTensor
    FIFOQueue FIFOQueueV2 FakeQueue GetSessionHandle GetSessionHandleV2 GetSessionTensor InfeedDequeue
    InfeedDequeueTuple InfeedEnqueue InfeedEnqueuePrelinearizedBuffer InfeedEnqueueTuple MapClear MapIncompleteSize
    MapPeek MapSize MapStage MapUnstage MapUnstageNoKey OrderedMapClear OrderedMapIncompleteSize OrderedMapPeek
    OrderedMapSize OrderedMapStage OrderedMapUnstage OrderedMapUnstageNoKey OutfeedDequeue OutfeedDequeueTuple
    OutfeedDequeueTupleV2 OutfeedDequeueV2 OutfeedEnqueue OutfeedEnqueueTuple PaddingFIFOQueue PaddingFIFOQueueV2
    PriorityQueue PriorityQueueV2 QueueClose QueueCloseV2 QueueDequeue QueueDequeueMany QueueDequeueManyV2
    QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue QueueEnqueueMany QueueEnqueueManyV2 QueueEnqueueV2
    QueueIsClosed QueueIsClosedV2 QueueSize QueueSizeV2 RandomShuffleQueue RandomShuffleQueueV2 RecordInput Stage
    StageClear StagePeek StageSize Unstage
"""
_TABLES = """
    AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable AnonymousMutableHashTableOfTensors
    GenerateVocabRemapping HashTable HashTableV2 InitializeTable InitializeTableFromDataset InitializeTableFromTextFile
    InitializeTableFromTextFileV2 InitializeTableV2 LookupTableExport LookupTableExportV2 LookupTableFind
    LookupTableFindV2 LookupTableImport LookupTableImportV2 LookupTableInsert LookupTableInsertV2 LookupTableRemoveV2
    LookupTableSize LookupTableSizeV2 MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable
    MutableHashTableOfTensors MutableHashTableOfTensorsV2 MutableHashTableV2
"""
_STRINGS = """
    AsString DecodeBase64 EncodeBase64 ReduceJoin RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace
    StringFormat StringJoin StringLength StringLower StringNGrams StringSplit StringSplitV2 StringStrip
    StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper Substr UnicodeDecode
    UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript UnicodeTranscode UnsortedSegmentJoin _TensorToHashBucketFast
"""
_FILES = """
    DecodeCSV DecodeCompressed DecodeJSONExample DecodePaddedRaw DecodeProtoV2 DecodeRaw DeserializeManySparse
    DeserializeSparse EncodeProto FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2
    LMDBReader MatchingFiles ParseExample ParseExampleV2 ParseSequenceExample ParseSequenceExampleV2 ParseSingleExample
    ParseSingleSequenceExample ParseTensor ReadFile ReaderNumRecordsProduced ReaderNumRecordsProducedV2
    ReaderNumWorkUnitsCompleted ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2
    ReaderReset ReaderResetV2 ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState ReaderSerializeStateV2
    SerializeManySparse SerializeSparse SerializeTensor TFRecordReader TFRecordReaderV2 TextLineReader TextLineReaderV2
    WholeFileReader WholeFileReaderV2 WriteFile
"""
_IMAGES = """
    DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodeJxl DecodePng DecodeWebP EncodeJpeg
    EncodeJpegVariableQuality EncodePng ExtractJpegShape
"""
_SPARSE_TENSORS = """
    AddManySparseToTensorsMap AddSparseToTensorsMap CSRSparseMatrixComponents CSRSparseMatrixToDense
    CSRSparseMatrixToSparseTensor DenseToCSRSparseMatrix DenseToDenseSetOperation DenseToSparseSetOperation SetSize
    SparseConcat SparseCross SparseCrossHashed SparseCrossV2 SparseFillEmptyRows SparseMatrixNNZ SparseMatrixTranspose
    SparseMatrixZeros SparseReorder SparseReshape SparseSlice SparseSplit SparseTensorToCSRSparseMatrix SparseToDense
    SparseToSparseSetOperation TakeManySparseFromTensorsMap
"""
_RAGGED_TENSORS = """
    RaggedCross RaggedFillEmptyRows RaggedGather RaggedRange RaggedTensorFromVariant RaggedTensorToSparse
    RaggedTensorToTensor RaggedTensorToVariant
"""

for _names in (_DATASETS, _ITERATORS, _QUEUES, _TABLES, _STRINGS, _FILES, _IMAGES, _SPARSE_TENSORS, _RAGGED_TENSORS):
    register_free(*_names.split())
