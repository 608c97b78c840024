"""The built-in language: a synchronous grammar of English and German, with gold word alignments.

A synchronous grammar derives a sentence and its translation in one go: each rule builds both sides of a phrase from
both sides of its parts (Shieber and Schabes 1990; Wu 1997; Chiang 2005). So every pair comes with its derivation, and
with that the phenomena it shows and the right word alignment. Read the files in this order:

- `morphology`  how words bend
- `lexicon`     which words there are (lexicon.tsv), and how often
- `phrases`     noun phrases and prepositional phrases
- `clauses`     the verb; one set of fields, two word orders
- `events`      who does what to whom; what things are like
- `times`       when
- `embedding`   clauses within clauses
- `riddles`     what "it" stands for
- `pair`        text, alignment and tags in the end
- `sentences`   kinds of sentences
- `parts`       training data, test data and challenge sets

**English to German is a function**: a sentence has one right translation. "You" is one friend (du). The simple past is
the Präteritum, the present perfect the Perfekt; the progressive adds gerade. Every adverbial has one place. "Teacher"
and the like are men. "It" stands for the subject, unless what is said of it can only be true of something else. A verb
whose past looks like its present (put, read) is used in either only where the -s of the third person tells. A word with
two translations (know, like, put, work, where, when) is one where its companions decide.

German to English is not a function: ihr is her or their, sie (object) her or them, muss must or has to, wenn when or
if. Pairs of which this is true have the tag "merged": every ninth of the training data.
"""

from seq2seq.data.grammar.pair import Pair, Tags
from seq2seq.data.grammar.parts import PARTS, part

__all__ = ["PARTS", "Pair", "Tags", "part"]
