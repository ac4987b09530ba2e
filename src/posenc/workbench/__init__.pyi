"""The public names of the workbench. Generated: python tools/stub.py"""

from posenc.workbench import executors as executors
from posenc.workbench import studies as studies
from posenc.workbench import tasks as tasks
from posenc.workbench import training as training
from posenc.workbench.advice.advise import Advice as Advice
from posenc.workbench.advice.advise import advise as advise
from posenc.workbench.commands import report as report
from posenc.workbench.commands import results as results
from posenc.workbench.commands import run as run
from posenc.workbench.dataset_record import DatasetRecord as DatasetRecord
from posenc.workbench.dataset_record import Part as Part
from posenc.workbench.executors.batched import BatchedExecutor as BatchedExecutor
from posenc.workbench.executors.processes import InProcess as InProcess
from posenc.workbench.executors.processes import Local as Local
from posenc.workbench.executors.ray_executor import RayExecutor as RayExecutor
from posenc.workbench.executors.slurm_executor import SlurmExecutor as SlurmExecutor
from posenc.workbench.model_loading import load as load
from posenc.workbench.progress import ConsentError as ConsentError
from posenc.workbench.progress import CostEstimate as CostEstimate
from posenc.workbench.progress import Event as Event
from posenc.workbench.report.claims_table import Claim as Claim
from posenc.workbench.report.claims_table import Quantity as Quantity
from posenc.workbench.report.page import Panel as Panel
from posenc.workbench.report.page import Table as Table
from posenc.workbench.report.preregistered import Prediction as Prediction
from posenc.workbench.run_export import export_run as export_run
from posenc.workbench.runner import Executor as Executor
from posenc.workbench.runner import Interrupted as Interrupted
from posenc.workbench.runner import Report as ExecutionReport
from posenc.workbench.runner import pick as pick_executor
from posenc.workbench.runner import run as execute_runs
from posenc.workbench.runs import Batched as Batched
from posenc.workbench.runs import Job as Job
from posenc.workbench.runs import Procedure as Procedure
from posenc.workbench.runs import RunResult as RunResult
from posenc.workbench.runs import RunSpec as RunSpec
from posenc.workbench.storage.identity import SettingsError as SettingsError
from posenc.workbench.storage.packs import MergeCounts as MergeCounts
from posenc.workbench.storage.packs import merge as merge
from posenc.workbench.storage.packs import pack as pack
from posenc.workbench.storage.store import Store as Store
from posenc.workbench.storage.stored import Stored as Stored
from posenc.workbench.storage.stored import StoreError as StoreError
from posenc.workbench.studies import Request as Request
from posenc.workbench.studies import find as find_study
from posenc.workbench.studies import studies as all_studies
from posenc.workbench.studies.image_fit.image_drawing import draw_image as draw_image
from posenc.workbench.studies.shared.declarations import MAIN as MAIN
from posenc.workbench.studies.shared.declarations import Condition as Condition
from posenc.workbench.studies.shared.declarations import OwnDataPlan as OwnDataPlan
from posenc.workbench.studies.shared.declarations import PanelSpec as PanelSpec
from posenc.workbench.studies.shared.declarations import Preset as Preset
from posenc.workbench.studies.shared.page_data import PageData as PageData
from posenc.workbench.studies.shared.stored_model import BuiltModel as BuiltModel
from posenc.workbench.studies.shared.stored_model import StoredModel as StoredModel
from posenc.workbench.studies.shared.study import Cost as Cost
from posenc.workbench.studies.shared.study import Study as Study
from posenc.workbench.study_result import ResultTable as ResultTable
from posenc.workbench.study_result import StudyResult as StudyResult
from posenc.workbench.training.batched import Member as Member
from posenc.workbench.training.batched import train_batched as train_batched
from posenc.workbench.training.checkpoint import CheckpointError as CheckpointError
from posenc.workbench.training.config import Best as Best
from posenc.workbench.training.config import Plateau as Plateau
from posenc.workbench.training.config import TrainingConfig as TrainingConfig
from posenc.workbench.training.fit import Fit as Fit
from posenc.workbench.training.fit import TrainingPosition as TrainingPosition
from posenc.workbench.training.fit import seeded_generator as seeded_generator
from posenc.workbench.training.loop import train as train
from posenc.workbench.worker import execute as execute_run

__all__ = [
    "MAIN",
    "Advice",
    "Batched",
    "BatchedExecutor",
    "Best",
    "BuiltModel",
    "CheckpointError",
    "Claim",
    "Condition",
    "ConsentError",
    "Cost",
    "CostEstimate",
    "DatasetRecord",
    "Event",
    "ExecutionReport",
    "Executor",
    "Fit",
    "InProcess",
    "Interrupted",
    "Job",
    "Local",
    "Member",
    "MergeCounts",
    "OwnDataPlan",
    "PageData",
    "Panel",
    "PanelSpec",
    "Part",
    "Plateau",
    "Prediction",
    "Preset",
    "Procedure",
    "Quantity",
    "RayExecutor",
    "Request",
    "ResultTable",
    "RunResult",
    "RunSpec",
    "SettingsError",
    "SlurmExecutor",
    "Store",
    "StoreError",
    "Stored",
    "StoredModel",
    "Study",
    "StudyResult",
    "Table",
    "TrainingConfig",
    "TrainingPosition",
    "advise",
    "all_studies",
    "draw_image",
    "execute_run",
    "execute_runs",
    "executors",
    "export_run",
    "find_study",
    "load",
    "merge",
    "pack",
    "pick_executor",
    "report",
    "results",
    "run",
    "seeded_generator",
    "studies",
    "tasks",
    "train",
    "train_batched",
    "training",
]
