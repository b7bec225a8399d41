"""What a sentence of a note says of each drug that it names."""

import pytest
from ragq.index.drug import Drug
from ragq.index.lexicon import Lexicon
from ragq.pipeline.said import names_of_patient, sayings

LEXICON = Lexicon([
    Drug(name, ("drug class",))
    for name in (
        "amiodarone", "amoxicillin", "apixaban", "aspirin", "atorvastatin", "bisoprolol", "clarithromycin", "clopidogrel", "digoxin",
        "doxycycline", "edoxaban", "enalapril", "furosemide", "ibuprofen", "lisinopril", "naproxen", "ramipril", "rosuvastatin",
        "sertraline", "simvastatin", "tramadol", "warfarin",
    )
] + [Drug("phenoxymethylpenicillin", ("penicillin",))])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Stopped warfarin, apixaban 5 mg twice daily continued.", {"warfarin": "ended", "apixaban": "taken"}),
        ("Atorvastatin not tolerated, so rosuvastatin 10 mg daily.", {"atorvastatin": "not", "rosuvastatin": "taken"}),
        ("Stopped warfarin; now on apixaban 5 mg and aspirin 75 mg daily.",
         {"warfarin": "ended", "apixaban": "taken", "aspirin": "taken"}),
        ("Takes ramipril 5 mg and no longer takes apixaban 5 mg.", {"ramipril": "taken", "apixaban": "ended"}),
        ("Toma ramipril 5 mg y ya no toma apixaban 5 mg.", {"ramipril": "taken", "apixaban": "ended"}),
        ("Warfarin was switched to edoxaban 60 mg in March.", {"warfarin": "ended", "edoxaban": "taken"}),
        ("Switched from warfarin to apixaban.", {"warfarin": "ended", "apixaban": "named"}),
        ("Switched to rosuvastatin 5 mg OD.", {"rosuvastatin": "taken"}),
        ("Muscle aches on simvastatin in January, she left it off by herself.", {"simvastatin": "ended"}),
        ("Digoxin was tried, withdrawn after two days because of nausea.", {"digoxin": "ended"}),
        ("Dose of amiodarone 200 mg stopped, apixaban 5 mg continued.", {"amiodarone": "ended", "apixaban": "taken"}),
        ("Stop ramipril, start lisinopril 5 mg once daily.", {"ramipril": "ended", "lisinopril": "taken"}),
        ("Lisinopril 10 mg OD STOPPED - AKI, GP to review restart in 4/52", {"lisinopril": "ended"}),
        ("She does not miss her bisoprolol 5 mg.", {"bisoprolol": "taken"}),
        ("Aspirin 75 mg daily, no bleeding.", {"aspirin": "taken"}),
        ("Digoxin 0.125 mg daily, not furosemide 40 mg.", {"digoxin": "taken", "furosemide": "not"}),
        ("Takes sertraline 50 mg daily as does her mother.", {"sertraline": "taken"}),
        ("Takes sertraline 50 mg; su hija toma tramadol.", {"sertraline": "taken", "tramadol": "other"}),
        ("Her carer, aged 61, takes sertraline 50 mg.", {"sertraline": "other"}),
        ("The man in the next bed takes warfarin 5 mg.", {"warfarin": "other"}),
        ("She asked about aspirin, which her neighbour takes; I advised against it.", {"aspirin": "other"}),
        ("His father-in-law takes warfarin.", {"warfarin": "other"}),
        ("Lives with his wife and takes ramipril 5 mg.", {"ramipril": "taken"}),
        ("Lives with wife, who has dementia and takes sertraline.", {"sertraline": "other"}),
        ("Seen with her daughter, continues bisoprolol 5 mg.", {"bisoprolol": "taken"}),
        ("La vecina toma warfarina 5 mg cada 12 horas.", {"warfarina": "other"}),
        ("Mr Gray in room 4 takes digoxin.", {"digoxin": "other"}),
        ("Allergic to penicillin; takes doxycycline 100 mg daily.", {"doxycycline": "taken"}),
        ("She gets a rash after amoxicillin (2014).", {"amoxicillin": "not"}),
        ("She should not have amoxicillin.", {"amoxicillin": "not"}),
        ("Do not restart clopidogrel.", {"clopidogrel": "not"}),
        ("If INR allows, start clopidogrel 75 mg.", {"clopidogrel": "not"}),
        ("Apixaban was considered but declined by the patient.", {"apixaban": "not"}),
        ("Le prescribieron enalapril 5 mg pero no lo toma.", {"enalapril": "not"}),
        ("Avoid clarithromycin with warfarin.", {"clarithromycin": "not", "warfarin": "named"}),
        ("She had taken clarithromycin from 5 to 12 April.", {"clarithromycin": "ended"}),
        ("Ibuprofen has not helped.", {"ibuprofen": "named"}),
        ("Warfarin held for three days, then restarted.", {"warfarin": "taken"}),
        ("Bled on warfarin, he says.", {"warfarin": "named"}),
        ("Dizzy on ramipril 5 mg.", {"ramipril": "taken"}),
        ("Digoxin on hold.", {"digoxin": "ended"}),
        ("Plan to start apixaban 5 mg next week.", {"apixaban": "not"}),
        ("Previously on warfarin, now on apixaban 5 mg BD.", {"warfarin": "ended", "apixaban": "taken"}),
        ("Off warfarin since June.", {"warfarin": "ended"}),
        ("No longer takes ramipril.", {"ramipril": "ended"}),
        ("Patient denies taking ibuprofen.", {"ibuprofen": "not"}),
        ("Do not stop bisoprolol.", {"bisoprolol": "taken"}),
        ("He would like to stop simvastatin.", {"simvastatin": "taken"}),
        ("Discussed stopping simvastatin; he prefers to continue.", {"simvastatin": "taken"}),
        ("Allergies: penicillin (rash), ibuprofen (bronchospasm).", {"ibuprofen": "not"}),
        ("His wife, who takes warfarin, asked if he should go on with apixaban 5 mg.", {"warfarin": "other", "apixaban": "taken"}),
        ("If pain persists add tramadol 50 mg.", {"tramadol": "not"}),
        ("Tramadol 50 mg if needed.", {"tramadol": "taken"}),
        ("Se cambia enalapril por lisinopril 5 mg.", {"enalapril": "ended", "lisinopril": "taken"}),
        ("Suspendida la warfarina; inicia apixabán 5 mg cada 12 horas.", {"warfarina": "ended", "apixaban": "taken"}),
        ("Ferrous fumarate 210 mg OD started.", {"ferrous fumarate": "taken"}),
        ("Creatinine 104 micromol/L, weight 81 kg, alcohol 20 g daily.", {}),
    ],
)  # fmt: skip
def test_each_drug_has_its_own_state(text, said):
    assert {s.drug: s.state for s in sayings(text, LEXICON)} == said


def test_a_person_by_another_name_is_somebody_else():
    names = names_of_patient(["Patient: Mrs Ruth Hollis", "Mrs Brown called."])
    assert names == {"mrs", "ruth", "hollis"}
    assert sayings("Mrs Brown takes digoxin.", LEXICON, names)[0].state == "other"
    assert sayings("Mrs Hollis takes digoxin.", LEXICON, names)[0].state == "taken"
    assert names_of_patient(["Mrs Hollis came.", "Mrs Hollis and Mr Gray.", "Seen: Mrs Hollis."]) == {"hollis"}
    assert names_of_patient(["Mr Gray."], "Ruth Hollis") == {"ruth", "hollis"}
    assert names_of_patient(["no name"]) == frozenset()


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("Ramipril 5 mg is no more.", "ended"),
        ("Bin the ramipril 5 mg.", "ended"),
        ("Ran out of ramipril 2.5 mg and did not renew.", "ended"),
        ("Came off ramipril 5 mg.", "ended"),
        ("Weaned off her ramipril 5 mg.", "ended"),
        ("She threw her ramipril 5 mg away.", "ended"),
        ("Gave up ramipril 5 mg last year.", "ended"),
        ("Has not taken ramipril 5 mg since March.", "ended"),
        ("He hasn't taken ramipril 5 mg since Easter.", "ended"),
        ("Binned the ramipril 5 mg.", "ended"),
        ("Let the prescription of ramipril 5 mg lapse.", "ended"),
        ("Never took ramipril 5 mg.", "not"),
        ("Abandonó el ramipril 5 mg.", "ended"),
        ("Tiró el ramipril 5 mg a la basura.", "ended"),
        ("Se le acabó el ramipril 5 mg y no lo renovó.", "ended"),
        ("Dejó caducar la receta de ramipril 5 mg.", "ended"),
        ("No ha tomado ramipril 5 mg desde marzo.", "ended"),
        ("Nunca tomó ramipril 5 mg.", "not"),
        ("Takes ramipril 5 mg and gave up smoking.", "taken"),
        ("Takes ramipril 5 mg, has been off work since May.", "taken"),
        ("Takes ramipril 5 mg and has not had a fall since.", "taken"),
        ("Has never missed her ramipril 5 mg.", "taken"),
    ],
)
def test_a_drug_done_away_with_is_not_taken(text, state):
    assert {(s.drug, s.state) for s in sayings(text, LEXICON)} == {("ramipril", state)}
