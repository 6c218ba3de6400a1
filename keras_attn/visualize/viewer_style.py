"""The style sheet of the attention viewer."""

STYLE = """
:root{color-scheme:light dark;--page:#f4f4f2;--card:#fff;--ink:#1a1a1a;--soft:#5c5c5c;
 --line:#d8d8d4;--hot:253 141 60;--map:8 81 156;--pick:#0b57a4;--chosen:#e3eefa}
@media (prefers-color-scheme:dark){:root{--page:#15171a;--card:#1f2226;--ink:#ececec;
 --soft:#a5a9af;--line:#3a3f45;--hot:178 76 8;--map:120 185 255;--pick:#7db8f5;--chosen:#24384d}}
*{box-sizing:border-box}
body{margin:0;padding:24px;background:var(--page);color:var(--ink);
 font:16px/1.5 system-ui,"Noto Sans",sans-serif}
main{max-width:68em;margin:auto}
h1{font-size:22px;line-height:1.3;margin:0 0 14px;overflow-wrap:anywhere}
h2{font-size:13px;font-weight:600;color:var(--soft);margin:0 0 6px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 16px;
 margin:0 0 12px;min-width:0}
.bar{display:flex;flex-wrap:wrap;gap:10px 22px;margin:0 0 8px;align-items:flex-start}
.bar fieldset{border:0;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:3px;min-width:0}
.bar legend,#chooser{padding:0;font-size:13px;color:var(--soft)}
.bar legend{margin:0 0 2px}
#chooser{width:100%;display:flex;gap:8px;align-items:center}
#chooser select{font:inherit;font-size:15px;color:var(--ink);background:var(--card);
 border:1px solid var(--line);border-radius:6px;padding:4px 8px;min-width:0;max-width:100%}
.bar label.pick{position:relative;font-size:14px;line-height:1.3;cursor:pointer}
.bar label.pick input{position:absolute;inset:0;opacity:0;margin:0;cursor:pointer}
.bar label.pick span{display:block;padding:4px 10px;border:1px solid var(--line);
 border-radius:6px;background:var(--card);min-width:2.1em;text-align:center}
.bar input:checked+span{background:var(--chosen);border-color:var(--pick);color:var(--ink);
 font-weight:600}
.bar input:disabled+span{opacity:.4}
.bar input:focus-visible+span,select:focus-visible,.t:focus-visible,canvas:focus-visible{
 outline:2px solid var(--pick);outline-offset:1px}
.hint{font-size:13px;color:var(--soft);margin:0 0 10px}
.stage.seen{display:grid;grid-template-columns:minmax(0,11fr) minmax(0,9fr);gap:0 12px;
 align-items:start;grid-template-rows:auto auto auto 1fr}
.stage.seen #keys{grid-row:1/span 4}
.text{font-size:19px;line-height:1.9;overflow-wrap:anywhere;cursor:default}
.t{border-radius:4px;padding:3px 0;cursor:pointer;
 background:rgb(var(--hot)/calc(var(--w,0)*100%))}
.t.special{font:13px ui-monospace,monospace;color:var(--soft);padding:4px 2px}
.t.special.lit{color:var(--ink)}
.t.on{box-shadow:0 0 0 2px var(--pick)}
.picture{position:relative;line-height:0;border-radius:6px;overflow:hidden}
.picture img{width:100%;min-height:1px}
.picture canvas{position:absolute;inset:0;width:100%;height:100%;cursor:crosshair}
.told{display:flex;flex-wrap:wrap;gap:6px 24px;justify-content:space-between;align-items:center}
#status{margin:0;min-height:1.5em;overflow-wrap:anywhere;flex:1 1 24em}
#status b{font-weight:650}
#status i{font-style:normal;color:var(--soft)}
.scale{display:flex;gap:8px;align-items:center;margin:0;font-size:13px;color:var(--soft)}
.ramp{width:120px;height:12px;border-radius:3px;border:1px solid var(--line);
 background:linear-gradient(to right,rgb(var(--hot)/0),rgb(var(--hot)))}
.ramp.seen{background:linear-gradient(to right,#181818,#d8d8d8)}
.maps{display:flex;flex-wrap:wrap;gap:0 12px;align-items:flex-start}
#matrix{flex:0 1 auto}
#all{flex:1 1 20em;overflow-x:auto}
.frame{position:relative;line-height:0;max-width:100%;outline:1px solid var(--line)}
.frame canvas{width:100%;cursor:crosshair}
.frame i{position:absolute;pointer-events:none;box-shadow:0 0 0 1.5px var(--pick)}
.frame canvas,.coarse{image-rendering:pixelated}
.grid{display:grid;gap:4px;line-height:0;width:max-content;max-width:100%}
.grid b{font:11px/1.2 system-ui,sans-serif;color:var(--soft);align-self:center;
 justify-self:center}
.grid canvas{width:100%;border:1px solid var(--line);border-radius:2px;cursor:pointer}
.grid canvas.on{box-shadow:0 0 0 2px var(--pick)}
[hidden]{display:none!important}
@media (max-width:640px){body{padding:12px}.stage.seen{display:block}}
"""
