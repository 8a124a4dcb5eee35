"""Makes a wheel of one system, which has the program, of the wheel for every system: see deploy/release.sh."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        program = os.environ["EODISPATCH_PROGRAM"]
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["EODISPATCH_PLATFORMS"]
        build_data["shared_scripts"] = {program: "eodispatch.exe" if program.endswith(".exe") else "eodispatch"}
