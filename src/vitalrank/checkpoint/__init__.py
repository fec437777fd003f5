"""Model folders on disk: ``model.json``, ``tensors.safetensors`` and ``ids.arrow``, whole or not there at all.

Writers publish a whole temporary folder by one rename and then move its files to their own places; readers open all
files before they read any and start again if a writer replaced the folder meanwhile. Nothing is ever pickled,
unpickled or executed.
"""

from vitalrank.checkpoint.jsontext import to_json
from vitalrank.checkpoint.layout import FORMAT, IDS, META, NEW, TENSORS, IdPair, Saved
from vitalrank.checkpoint.reading import generation, is_saved, read_folder, read_meta
from vitalrank.checkpoint.removing import foreign_files, remove_folder
from vitalrank.checkpoint.writing import new_temporary, write_folder, write_tensors

__all__ = [
    "FORMAT",
    "IDS",
    "META",
    "NEW",
    "TENSORS",
    "IdPair",
    "Saved",
    "foreign_files",
    "generation",
    "is_saved",
    "new_temporary",
    "read_folder",
    "read_meta",
    "remove_folder",
    "to_json",
    "write_folder",
    "write_tensors",
]
