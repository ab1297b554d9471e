"""Writes widths.tsv from the fonts beside it: code point, regular and semi-bold advance in thousandths of the size.

Needs fonttools. The fonts were cut with its pyftsubset (--no-hinting --layout-features=kern,mark,mkmk,ccmp) to Latin,
Greek, mathematical signs, superscripts and subscripts; DejaVuSans-signs.ttf holds the signs that Inter lacks.
"""

from pathlib import Path

from fontTools.ttLib import TTFont

here = Path(__file__).parent
regular, bold, signs = (TTFont(here / n) for n in ("Inter-Regular.otf", "Inter-SemiBold.otf", "DejaVuSans-signs.ttf"))


def advance(font, point):
    return round(1000 * font["hmtx"][font.getBestCmap()[point]][0] / font["head"].unitsPerEm)


with open(here / "widths.tsv", "w") as out:
    for point in sorted(set(regular.getBestCmap()) | set(signs.getBestCmap())):
        pair = (regular, bold) if point in regular.getBestCmap() else (signs, signs)
        out.write("%04X\t%d\t%d\n" % (point, advance(pair[0], point), advance(pair[1], point)))
