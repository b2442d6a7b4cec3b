import { expect, it } from 'vitest';
import { Budget } from '../../src/expressions/budget.ts';
import { compileExpression, ExpressionError } from '../../src/expressions/compile.ts';
import type { Json } from '../../src/model/json.ts';
import { type Chance, chanceOf } from '../chance.ts';
import { byOtherCel } from '../oracles/cel.ts';

const BODY = {
  name: 'Zoë Ł',
  empty: '',
  digits: '007',
  on: true,
  nothing: null,
  tags: ['b', 'a', 'b'],
  address: { city: 'Ulm', lines: ['x', 'y'] },
};

type Type = 'int' | 'double' | 'bool' | 'string' | 'texts' | 'ints';

const LEAVES: Readonly<Record<Type, readonly string[]>> = {
  int: ['0', '1', '-1', '7', '2147483648', '9223372036854775807', 'size(body.tags)', 'size(body.name)'],
  double: ['0.0', '-0.5', '1.5', '1e3', '1e308', 'double("2.25")', 'double(9007199254740993)'],
  bool: ['true', 'false', 'body.on', 'has(body.name)', 'has(body.missing)', 'body.nothing == null'],
  string: ['""', '"abc"', '"a,b,,c"', '"ß\\u00df"', 'body.name', 'body.empty', 'body.digits', 'body.address.city'],
  texts: ['[]', '["a", "b"]', 'body.tags', 'body.address.lines'],
  ints: ['[]', '[3, 1, 2]', '[0, -1]'],
};

const listed = (text: string) => text.trim().split(/\s*;\s*/);

/** Ways to make a type of others; `$int` stands for an expression of that type. `x` and `y` are variables of macros. */
const FORMS: Readonly<Record<Type, readonly string[]>> = {
  int: listed(`
    $int + $int; $int - $int; $int * $int; $int / $int; $int % $int; -($int); size($string); size($texts);
    int($double); int($string); $ints[$int]; $string.indexOf($string); $string.lastIndexOf($string);
    $bool ? $int : $int; $string.indexOf("b", $int); int(uint($int)); size({$string: $int, $string: $int});
    {$string: $int}[$string]`),
  double: listed(`
    $double + $double; $double - $double; $double * $double; $double / $double; -($double); double($int);
    double($string); $bool ? $double : $double`),
  bool: listed(`
    $int == $int; $int < $int; $double <= $double; $string > $string; $string == $string; $texts == $texts;
    $ints != $ints; $bool && $bool; $bool || $bool; !($bool); ($string in $texts); ($int in $ints);
    ($int < $double); ($int == $int) != $bool; $string.startsWith($string); $string.endsWith($string);
    $string.contains($string); $string.matches("[a-c]+"); $texts.exists(x, x == $string); $ints.all(x, x < $int);
    $ints.exists_one(x, x == $int); {$int: $bool}[$int]; dyn($int) == dyn($double); [$int, $int] == [$int, $int];
    {$string: $int} == {$string: $int}; bool($string); $bool ? $bool : $bool`),
  string: listed(`
    $string + $string; string($int); string($bool); $texts[$int]; $bool ? $string : $string; $string.lowerAscii();
    $string.upperAscii(); $string.trim(); $string.substring($int); $string.substring($int, $int);
    $texts.join($string); $string.charAt($int); $string.replace($string, $string)`),
  texts: listed(`
    $texts + $texts; [$string, $string]; $texts.filter(x, x != $string); $texts.map(x, x + $string);
    $string.split($string)`),
  ints: listed(`
    $ints + $ints; [$int, $int]; $ints.map(x, x + $int); $ints.filter(y, y > $int); $texts.map(x, size(x))`),
};

function expression(chance: Chance, type: Type, depth: number): string {
  if (depth === 0) return chance.pick(LEAVES[type]);
  return chance
    .pick(FORMS[type])
    .replaceAll(/\$(\w+)/g, (_all, of: Type) => `(${expression(chance, of, chance.below(depth))})`);
}

/** Undefined if it fails. */
function ours(source: string): Json | undefined {
  try {
    const compiled = compileExpression(source, 'delivery');
    return compiled.evaluateIn({ roots: { body: BODY, headers: {} }, budget: new Budget() });
  } catch (error) {
    if (error instanceof ExpressionError) return undefined;
    throw error;
  }
}

it('an expression has the value that another implementation of CEL gives it, or a clear error', () => {
  const chance = chanceOf('expressions of CEL');
  const different: object[] = [];
  let same = 0;
  for (let count = 0; count < 2500; count += 1) {
    const source = expression(chance, chance.pick(Object.keys(FORMS) as Type[]), 1 + chance.below(3));
    const value = ours(source);
    if (value === undefined) continue;
    const other = byOtherCel(source, { body: BODY });
    if (JSON.stringify(value) === JSON.stringify(other)) same += 1;
    else different.push({ source, value, other });
  }
  expect(different).toEqual([]);
  // Of random expressions, some have no value to either, such as 1 / 0.
  expect(same).toBeGreaterThan(800);
});
