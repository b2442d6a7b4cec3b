/** Habits from other languages, and what to write in CEL instead. The first match counts. */
const HABITS: readonly (readonly [RegExp, string])[] = [
  [
    /(?<![.\w])(now|today|new\s+Date|Date\.now)\s*\(/,
    'expressions read no clock, so that each attempt gets the same; run.startedAt is when the run started',
  ],
  [
    /(?<![.\w])(process\.)?\$?env\s*[.[]/i,
    `expressions read no environment; write vars.NAME, or for a secret in an input of a step \${secret('env:NAME')}`,
  ],
  [
    /(?<![.\w])secret\s*\(/,
    `secret() is a placeholder of its own in step inputs, with its reference written out, such as "Bearer \${secret('env:NAME')}"`,
  ],
  [/===/, 'CEL has no ===; write =='],
  [/!==/, 'CEL has no !==; write !='],
  [/<>/, 'CEL has no <>; write !='],
  [/=>/, 'CEL has no =>; write list.map(item, item.name), or filter, exists, all in the same way'],
  [/(?<![=!<>])=(?!=)/, 'CEL assigns nothing; = is written =='],
  [/\?\?/, 'CEL has no ??; write has(trigger.body.x) ? trigger.body.x : "default"'],
  [/\?\.(?!\d)/, 'CEL has no ?.; has(trigger.body.x) says whether a field is there'],
  [/\+\+|--(?![\d(])/, 'CEL changes no values; write + 1 or - 1'],
  [/(?<!&)&(?!&)/, 'CEL has no &; write &&'],
  [/(?<!\|)\|(?!\|)/, 'CEL has no |; write ||'],
  [/`/, 'CEL has no backquotes; write "text " + string(trigger.body.x)'],
  [/\$\{|\{\{/, 'is an expression already; leave out the braces around it'],
  [/(?<![.\w])and(?!\w)/i, 'CEL has no "and"; write &&'],
  [/(?<![.\w])or(?!\w)/i, 'CEL has no "or"; write ||'],
  [/(?<![.\w])not(?!\w)/i, 'CEL has no "not"; write !'],
  [/(?<![.\w])if(?!\w)/, 'CEL has no "if"; write condition ? one : other'],
  [
    /(?<![.\w])(undefined|nil|None|NULL|Null)(?!\w)/,
    'CEL has null alone; has(trigger.body.x) says whether a field is there',
  ],
  [/(?<![.\w])(True|TRUE)(?!\w)/, 'is written true'],
  [/(?<![.\w])(False|FALSE)(?!\w)/, 'is written false'],
  [/(?<![.\w])typeof(?!\w)/, 'CEL has no typeof; write type(trigger.body.x) == string'],
  [/(?<![.\w])len\s*\(/, 'CEL has no len(); write size()'],
  [/(?<![.\w])(parseInt|Math\.(round|floor|trunc))\s*\(/, 'write int(), which cuts off what follows the point'],
  [/(?<![.\w])(parseFloat|Number)\s*\(/, 'write double()'],
  [/(?<![.\w])(String|str)\s*\(/, 'write string()'],
  [/\.toString\s*\(/, 'CEL has no toString(); write string(value)'],
  [/\.(toUpperCase|upper|toUpper|upcase)\s*\(/, 'write .upperAscii()'],
  [/\.(toLowerCase|lower|toLower|downcase)\s*\(/, 'write .lowerAscii()'],
  [/\.includes\s*\(/, 'CEL has no includes(); write text.contains("part"), or item in list'],
  [/\.(startswith|starts_with)\s*\(/, 'write .startsWith()'],
  [/\.(endswith|ends_with)\s*\(/, 'write .endsWith()'],
  [/\.(match|test|search)\s*\(/, 'write .matches("pattern")'],
  [/\.(slice|substr)\s*\(/, 'write .substring(from, to)'],
  [/\.some\s*\(/, 'CEL has no some(); write list.exists(item, condition)'],
  [/\.every\s*\(/, 'CEL has no every(); write list.all(item, condition)'],
  [/\.find\s*\(/, 'CEL has no find(); write list.filter(item, condition)[0]'],
];

interface Advice {
  readonly reason: string;
  /** Offset of the match. */
  readonly position: number;
}

/** Advice for an expression that does not compile; `code` is its text with literals blanked out. */
export function adviceFor(code: string): Advice | undefined {
  for (const [habit, reason] of HABITS) {
    const found = habit.exec(code);
    if (found !== null) return { reason, position: found.index };
  }
  return undefined;
}
