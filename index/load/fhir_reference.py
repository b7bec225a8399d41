"""References: finds the resource that another one names, within one file and never outside it."""

from __future__ import annotations

from collections.abc import Iterable

from ragq.index.load.fhir_value import Resource, concept, flat


class References:
    """Index of a file's resources by full URL and by `Type/id`."""

    def __init__(self, entries: Iterable[tuple[str | None, Resource]]) -> None:
        self._by_key: dict[str, Resource] = {}
        for url, resource in entries:
            keys = (url, f"{resource['resourceType']}/{resource['id']}" if resource.get("id") else None)
            self._by_key.update({key: resource for key in keys if key})

    def find(self, reference: Resource | None, holder: Resource | None = None) -> Resource | None:
        """Find what a Reference points at: contained in `holder` (`#id`), or elsewhere in the file."""
        key = str((reference or {}).get("reference", ""))
        if key.startswith("#"):
            inside = (holder or {}).get("contained", [])
            return next((resource for resource in inside if resource.get("id") == key[1:]), None)
        key = key.split("/_history/")[0]
        return self._by_key.get(key) or self._by_key.get("/".join(key.split("/")[-2:]))

    def name(self, reference: Resource | None, holder: Resource | None = None) -> str:
        """Words for what a Reference points at: its code, else the words that stand in the reference."""
        found = self.find(reference, holder)
        return concept((found or {}).get("code")) or flat((reference or {}).get("display") or "")

    def names(self, references: list[Resource] | None) -> str:
        """Words for several References, parted by commas, each once."""
        return ", ".join(dict.fromkeys(words for item in references or [] if (words := self.name(item))))

    def patients(self, resources: Iterable[Resource]) -> set[str]:
        """Ids of all patients that the resources are, or are about."""
        found: set[str] = set()
        for resource in resources:
            if resource["resourceType"] == "Patient":
                found.add(str(resource.get("id", "?")))
                continue
            reference = resource.get("subject") or resource.get("patient")
            key = str(reference.get("reference", "")) if isinstance(reference, dict) else ""
            target = self.find(reference) if key else None
            if target:
                found.update([str(target.get("id", "?"))] if target["resourceType"] == "Patient" else [])
            elif "Patient/" in key or key.startswith("urn:"):
                found.add(key.split("/_history/")[0].removeprefix("urn:uuid:").split("/")[-1])
        return found
