"""Variables, lists of tensors, control flow, devices: operators that a graph needs and that do no arithmetic."""

from __future__ import annotations

from .registry import register_free

_VARIABLES = """
    Assign AssignVariableOp AssignVariableXlaConcatND ConsumeMutexLock CountUpTo DestroyResourceOp
    DestroyTemporaryVariable DisableCopyOnRead IsVariableInitialized MutexLock MutexV2 ReadVariableOp
    ReadVariableXlaSplitND ResourceCountUpTo TemporaryVariable VarHandleOp VarIsInitializedOp Variable VariableShape
    VariableV2 _ReadVariablesOp _VarHandlesOp
"""
_CONTROL_FLOW = """
    Abort ControlTrigger Enter Exit FakeParam LoopCond Merge NextIteration NoOp RefEnter RefExit RefMerge
    RefNextIteration RefSelect RefSwitch Switch _ArrayToList _ListToArray _SwitchN
"""
_LISTS = """
    EmptyTensorList EmptyTensorMap Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush StackPushV2 StackV2
    TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayConcat TensorArrayConcatV2
    TensorArrayConcatV3 TensorArrayGather TensorArrayGatherV2 TensorArrayGatherV3 TensorArrayGrad TensorArrayGradV2
    TensorArrayGradV3 TensorArrayGradWithShape TensorArrayPack TensorArrayRead TensorArrayReadV2 TensorArrayReadV3
    TensorArrayScatter TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySize TensorArraySizeV2 TensorArraySizeV3
    TensorArraySplit TensorArraySplitV2 TensorArraySplitV3 TensorArrayUnpack TensorArrayV2 TensorArrayV3
    TensorArrayWrite TensorArrayWriteV2 TensorArrayWriteV3 TensorListConcat TensorListConcatLists TensorListConcatV2
    TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack
    TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter
    TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack
    TensorMapErase TensorMapHasKey TensorMapInsert TensorMapLookup TensorMapSize TensorMapStackKeys
"""
_OPTIONALS = """
    CompositeTensorVariantFromComponents CompositeTensorVariantToComponents OptionalFromValue OptionalGetValue
    OptionalHasValue OptionalNone
"""
_DEVICES = """
    AllToAll CheckPinned CollectiveAllToAllV2 CollectiveAllToAllV3 CollectiveAssignGroupV2 CollectiveBcastRecv
    CollectiveBcastRecvV2 CollectiveBcastSend CollectiveBcastSendV2 CollectiveGather CollectiveGatherV2
    CollectiveInitializeCommunicator CollectivePermute DeviceIndex NcclBroadcast Recv Send SyncDevice XlaReplicaId
    XlaSpmdFullToShardShape XlaSpmdShardToFullShape _CopyFromGpuToHost _CopyFromHostToGpu _HostRecv _HostSend _Recv
    _Send
"""
_CHECKING = """
    Assert CheckNumerics CheckNumericsV2 DebugNanCount DebugNumericSummary DebugNumericSummaryV2 IsTensorFloat32Enabled
    Print PrintV2 Timestamp
"""
_SUMMARIES = """
    AudioSummary AudioSummaryV2 CloseSummaryWriter CreateSummaryDbWriter CreateSummaryFileWriter FlushSummaryWriter
    HistogramSummary ImageSummary ImportEvent MergeSummary ScalarSummary StatsAggregatorSummary SummaryWriter
    TensorSummary TensorSummaryV2 WriteAudioSummary WriteGraphSummary WriteHistogramSummary WriteImageSummary
    WriteRawProtoSummary WriteScalarSummary WriteSummary
"""
_CHECKPOINTS = """
    DistributedSave MergeV2Checkpoints Restore RestoreSlice RestoreV2 Save SaveSlices SaveV2 ShardedFilename
    ShardedFilespec
"""

for _names in (_VARIABLES, _CONTROL_FLOW, _LISTS, _OPTIONALS, _DEVICES, _CHECKING, _SUMMARIES, _CHECKPOINTS):
    register_free(*_names.split())
