"""The colours of the page, for light and dark, and its style sheet.

Blue and orange stay apart for colour-blind readers. Text has a contrast of at least 4.5 to what is behind it,
marks of at least 3; a test measures it.
"""

from __future__ import annotations

__all__ = ["LEVELS", "PALETTES", "STYLE"]

LEVELS = 4  # shades to either side of zero in the map of pairs

# `together` and `apart` are shades for synergy and redundancy from faint to strong: (behind, text).
PALETTES: dict[str, dict[str, str]] = {
    "light": {
        "page": "#ffffff", "card": "#f5f7fa", "ink": "#1b2330", "quiet": "#56616f", "rule": "#d8dee6",
        "plus": "#1f4e9e", "minus": "#b84e0c", "whisker": "#1b2330", "dot": "#5f7fb8", "link": "#1f4e9e",
        "p1": "#e4edf8", "p1t": "#1b2330", "p2": "#b7cfec", "p2t": "#1b2330",
        "p3": "#7aa3d6", "p3t": "#1b2330", "p4": "#1f4e9e", "p4t": "#ffffff",
        "m1": "#fbeade", "m1t": "#1b2330", "m2": "#f5c8a5", "m2t": "#1b2330",
        "m3": "#e0935a", "m3t": "#1b2330", "m4": "#a4480a", "m4t": "#ffffff",
    },
    "dark": {
        "page": "#11161d", "card": "#1a212b", "ink": "#e8ecf2", "quiet": "#a6b1bf", "rule": "#303a47",
        "plus": "#7fb6e8", "minus": "#f0964b", "whisker": "#e8ecf2", "dot": "#6f93c6", "link": "#9cc7f2",
        "p1": "#1c2b40", "p1t": "#e8ecf2", "p2": "#24466f", "p2t": "#e8ecf2",
        "p3": "#33659f", "p3t": "#ffffff", "p4": "#92c3f1", "p4t": "#11161d",
        "m1": "#33261c", "m1t": "#e8ecf2", "m2": "#5e3b20", "m2t": "#e8ecf2",
        "m3": "#94511d", "m3t": "#ffffff", "m4": "#f3b47f", "m4t": "#11161d",
    },
}  # fmt: skip


def _variables(name: str) -> str:
    return "".join(f"--{key}:{colour};" for key, colour in PALETTES[name].items())


def _shades() -> str:
    rules = []
    for side in "pm":
        for level in range(1, LEVELS + 1):
            key = f"{side}{level}"
            rules.append(f".{key}{{fill:var(--{key});background:var(--{key})}}.{key}t{{fill:var(--{key}t)}}")
    return "".join(rules)


_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",
Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
main,header,footer{max-width:60rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.5rem}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .35rem;letter-spacing:-.01em;text-wrap:balance}
h2{font-size:1.25rem;margin:0 0 .5rem}
h3{font-size:1rem;margin:0 0 .25rem}
p{margin:.4rem 0;max-width:46rem}
section{margin:2.75rem 0 0;scroll-margin-top:1rem}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;background:var(--page);padding:.5rem}
.quiet,caption,.note{color:var(--quiet);font-size:.875rem}
.verdict{background:var(--card);border-left:4px solid var(--plus);border-radius:4px;padding:.75rem 1.1rem;
margin:1.25rem 0}
.verdict p{font-size:1.075rem;max-width:none}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;list-style:none;padding:0;margin:.5rem 0;font-size:.9rem}
table{border-collapse:collapse;font-size:.9rem;width:100%;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:0 0 .4rem}
th,td{padding:.35rem .6rem;text-align:left;border-bottom:1px solid var(--rule);vertical-align:middle}
thead th{font-size:.8rem;color:var(--quiet);font-weight:600;vertical-align:bottom}
tbody th{font-weight:400}
.num{text-align:right;white-space:nowrap}
.small{display:block;color:var(--quiet);font-size:.8rem}
.scroll{overflow-x:auto;margin:.5rem 0}.scroll th{overflow-wrap:normal}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
svg{display:block;overflow:visible}svg.clip{overflow:hidden}
svg text{fill:var(--quiet);font-size:12px;font-variant-numeric:tabular-nums}
.ranking{table-layout:auto}
.ranking .chart{width:36%;min-width:9rem;padding-top:0;padding-bottom:0}
.ranking th.who{font-weight:600}
.grid{stroke:var(--rule)}.zero{stroke:var(--quiet)}
.plus{fill:var(--plus)}.minus{fill:var(--minus)}
.whisker{stroke:var(--whisker);stroke-width:1.5}
.dots circle{fill:var(--dot);fill-opacity:.55}
.curve{fill:none;stroke:var(--plus);stroke-width:2}
.mean{fill:var(--plus);stroke:var(--page);stroke-width:1.5}
.below .curve{stroke:var(--minus)}.below .mean{fill:var(--minus)}
.plot{display:grid;grid-template-columns:3.4rem minmax(0,1fr);margin:.75rem 0 0}
figure{margin:0}figcaption{color:var(--quiet);font-size:.875rem;margin-top:.5rem;max-width:46rem}
.map{display:grid;grid-template-columns:minmax(6rem,max-content) minmax(0,1fr);gap:0 .5rem;margin-top:.75rem}
.map ol{list-style:none;margin:0;padding:0;font-size:.8rem;max-width:14rem;min-width:0}
.map li{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.map rect{stroke:var(--page);stroke-width:2}
.map text{font-size:11px}
.none{fill:var(--card)}.map rect.unknown{fill:none;stroke:var(--quiet);stroke-width:1;stroke-dasharray:2 3}
.key{display:flex;flex-wrap:wrap;gap:.3rem .9rem;font-size:.8rem;color:var(--quiet);margin-top:.6rem;
align-items:center}
.key i{display:inline-block;width:1.5rem;height:.8rem}
.key .blank{border:1px dashed var(--quiet)}
.multiples{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:1rem 1.25rem;padding:0;
margin:.75rem 0;list-style:none}
.multiples li{min-width:0}
.multiples b{display:block;font-weight:600;font-size:.85rem;overflow:hidden;text-overflow:ellipsis;
white-space:nowrap}
.finding{border-top:1px solid var(--rule);padding:.75rem 0}
summary{cursor:pointer;color:var(--link);font-size:.9rem}
code,pre{font:.85rem/1.5 ui-monospace,Menlo,Consolas,monospace}
pre{background:var(--card);padding:.75rem 1rem;border-radius:4px;white-space:pre-wrap;margin:.5rem 0}
pre span{display:inline-block;max-width:100%}
footer{padding:2.5rem 1.25rem;color:var(--quiet);font-size:.85rem}
@media (max-width:58rem){.small{white-space:normal}}
@media (max-width:44rem){
h1{font-size:1.5rem}header{padding-top:1.5rem}
.ranking,.ranking tbody{display:block}
.ranking thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.ranking caption{display:block}
.ranking tr{display:grid;grid-template-columns:1.9rem minmax(0,1fr) auto;align-items:baseline;
border-bottom:1px solid var(--rule);padding:.45rem 0}
.ranking th,.ranking td{border:0;padding:.05rem .3rem .05rem 0}
.ranking .chart{grid-column:2/4;width:auto;min-width:0}
.ranking .worth{grid-column:2;text-align:left}
.ranking .part{grid-column:3}
.ranking .who{grid-column:2}.ranking .paid{grid-column:3;grid-row:1}
.ranking .part::before{content:attr(data-label) " ";color:var(--quiet)}
.map .cell{display:none}
}
@media print{
body{font-size:10.5pt}main,header,footer{max-width:none;padding-left:0;padding-right:0}
nav,.skip{display:none}section{margin-top:1.6rem}
h2,h3,caption{break-after:avoid}tr,figure,.finding,.multiples li,.verdict{break-inside:avoid}
.verdict,pre,rect,i{-webkit-print-color-adjust:exact;print-color-adjust:exact}
.scroll{overflow:visible}summary{color:inherit}
details::details-content{content-visibility:visible;display:block;height:auto}
}
"""

# Paper is white, whatever the screen is.
STYLE = (
    f":root{{color-scheme:light dark;{_variables('light')}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables('dark')}}}}}"
    + "".join(line for line in _RULES.strip().splitlines())
    + _shades()
)
