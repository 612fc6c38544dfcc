"""A session of edits in every form: patches, diffs with and without counts, blocks, renames; diffs that are shown."""

from __future__ import annotations

from codelet.context.compaction import CompactionSettings
from tests.context.compaction.stories.story import Story, code

_GIT_DIFF = """diff --git a/src/rates.py b/src/rates.py
index 1a2b3c4..5d6e7f8 100644
--- a/src/rates.py
+++ b/src/rates.py
@@ -1,5 +1,5 @@ RATES
 FIRST_RATE = 0.05
-MIDDLE_RATE = 0.07
--- not a file but a removed comment
+MIDDLE_RATE = 0.08
 LAST_RATE = 0.19
+++ counted as an added line
\\ No newline at end of file
diff --git a/src/legacy_rates.py b/src/legacy_rates.py
deleted file mode 100644
--- a/src/legacy_rates.py
+++ /dev/null
@@ -1 +0,0 @@
-LEGACY_RATE = 0.16
1 file changed after all"""
_COMBINED = """diff --cc src/merge.py
index 1234567,2345678..3456789
--- a/src/merge.py
+++ b/src/merge.py
@@@ -1,3 -1,3 +1,4 @@@
  def merge_rates():
- -    return ours_only_rate
 --    return theirs_only_rate
++    return both_rates_merged
That was the merge."""
_PLAIN = """3c3
< MIDDLE_RATE = 0.08
---
> MIDDLE_RATE = 0.085
7,8d6
< OLD_TAIL_RATE = 1
< OLD_TAIL_TAX = 2
12a11
> NEW_TAIL_RATE = 3
diff ended with status 1"""
_PATCH = """*** Begin Patch
*** Update File: src/taxes.py
*** Move to: src/tax/rules.py
@@ def rules():
     keep_rule_a = 1
-    drop_rule_b = 2
+    take_rule_c = 3
@@
-drop_rule_d = 4
+take_rule_e = 5
*** Add File: src/tax/zones.py
+ZONE_NORTH = "north-7"
+ZONE_SOUTH = "south-9"
*** Delete File: src/old_zones.py
*** End Patch"""
_BLOCKS = """src/cart_total.py
<<<<<<< SEARCH
    total_before = sum(prices)
=======
    total_after = sum(prices) - rebate_percent
>>>>>>> REPLACE

src/cart_count.py
------- SEARCH
    count_before = 0
=======
    count_after = 1
+++++++ REPLACE

<<<<<<< SEARCH
    this block never gets to its middle
"""
_FENCED = """**Update: `src/shop/label.py`**

```diff
@@ class Label
-    width_mm = 40
+    width_mm = 55
```
**Delete: `src/shop/sticker.py`**"""
_LOOSE = """--- a/src/loose.py
+++ b/src/loose.py
@@ somewhere
 def loose():
-    return loose_before
+    return loose_after
"""


def edited_everywhere() -> Story:
    """Each turn edits files in another form, and shows a diff in another one."""
    story = Story("edited_everywhere")
    story.settings = CompactionSettings(ledger_percent=25)
    story.user("Raise the middle rate to 8 %, never above 8.5 %, and tidy the tax module.")
    story.read("src/rates.py", "FIRST_RATE = 0.05\nMIDDLE_RATE = 0.07\nLAST_RATE = 0.19\n" + code("py", 90, 6))
    story.read("src/legacy_rates.py", "LEGACY_RATE = 0.16\n")
    story.edit("src/rates.py", "MIDDLE_RATE = 0.07", "MIDDLE_RATE = 0.08")
    story.run("git diff", _GIT_DIFF)
    story.says("MIDDLE_RATE is 0.08 now; the diff shows LEGACY_RATE removed as well, which was done before.")
    story.user("Merge the branch of Mira, then compare with the release.")
    story.run("git merge mira/rates && git show", _COMBINED)
    story.run("diff src/rates.py release/rates.py", _PLAIN, 1)
    story.says("The merge took both_rates_merged. The release has MIDDLE_RATE = 0.085:\n" + _PLAIN)
    story.user("Move the taxes into a package of their own.")
    story.read("src/taxes.py", "def rules():\n    keep_rule_a = 1\n    drop_rule_b = 2\ndrop_rule_d = 4\n")
    story.read("src/old_zones.py", 'ZONE_EAST = "east-3"\n')
    story.call("apply_patch", {"input": _PATCH}, "Done!")
    story.call("replace_in_file", {"path": "src/cart_total.py", "diff": _BLOCKS}, "Applied 2 blocks, refused none.")
    story.says("src/taxes.py is src/tax/rules.py now, old_zones.py is gone, and the cart subtracts rebate_percent.")
    story.user("Labels are 55 mm wide. And src/loose.py returns loose_after.")
    story.call("apply_patch", {"input": _FENCED.replace("\n", "\r\n")}, "ok")
    story.call("patch", {"patch": _LOOSE}, "patching file src/loose.py")
    story.call("shell", {"command": ["bash", "-lc", f"git apply <<'END'\n{_LOOSE.replace('loose_', 'other_')}END"]}, "")
    story.call("edit", {"path": "src/refused.py", "old": "port = 1", "new": "port = 8177"}, "Error: old not found")
    story.call(
        "notebook_edit",
        {"notebook_path": "docs/rates.ipynb", "cell": 3, "new_source": "plot(middle_rate_curve, step=2)"},
        "Cell 3 updated",
    )
    story.call("insert", {"path": "src/rates.py", "line": 12, "text": "EXTRA_RATE = 0.01\nEXTRA_DAYS = 31"}, "ok")
    story.says("Labels are 55 mm wide; src/refused.py was not changed, as `port = 1` does not stand there.")
    story.user("Replace the whole of src/rates.py by the table.")
    story.write(
        "src/rates.py", "RATES_TABLE = {'first': 0.05, 'middle': 0.08, 'last': 0.19}\n\n\ndef rate_of(name):\n    ...\n"
    )
    story.run(
        "sed -i -e 's/ZONE_NORTH/ZONE_UP/' -e '/ZONE_SOUTH/d' src/tax/zones.py && cat src/tax/zones.py",
        'ZONE_UP = "north-7"',
    )
    story.run("perl -pi -e 's{width_mm = 55}{width_mm = 60}' src/shop/label.py", "")
    story.run("git stash && git stash pop && git checkout main -- src/loose.py", "Saved working directory")
    story.run("git rm -q src/shop/sheet.py; git mv src/shop src/labels", "")
    story.says("The table stands; ZONE_SOUTH is removed and ZONE_NORTH is ZONE_UP.")
    story.user("How wide are labels now, and which files are left?")
    return story
