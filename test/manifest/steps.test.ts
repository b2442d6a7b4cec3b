// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/model/json.ts';
import { issuesAfter, rules, strictRules } from './rules.ts';

type Part = Record<string, Json>;

/** The issues of the good manifest after changing parts of a step, or adding one. */
function issuesWith(key: string, part: Part, given = rules): string[] {
  return issuesAfter((manifest) => {
    manifest.steps[key] = { ...manifest.steps[key], ...part };
  }, given);
}

const edge = (edge: Json): Part => ({ runAfter: { first: edge } });
const when = (condition: Json): Part => edge({ when: condition });
const url = 'https://example.com/';

describe('refuses', () => {
  test.each<[string, string, Part, string]>([
    [
      'an unknown key',
      'first',
      { runsAfter: {} },
      'steps.first.runsAfter: is not known here; did you mean "runAfter"?',
    ],
    ['child steps', 'first', { steps: {} }, 'steps.first.steps: is only read on steps of type ForEach'],
    ['a loop', 'first', { forEach: [] }, 'steps.first.forEach: is only read on steps of type ForEach'],
    [
      'a key in two spellings',
      'first',
      { Type: 'NoOp' },
      'steps.first.Type: is given twice: "type" and "Type" are the same key',
    ],
    ['a key with a dot', 'a.b', { type: 'NoOp' }, 'steps["a.b"]: is not a step key'],
    ['a key of 65 characters', 'a'.repeat(65), { type: 'NoOp' }, `steps.${'a'.repeat(65)}: is not a step key`],
    ['a missing type', 'fourth', {}, 'steps.fourth.type: is missing'],
    [
      'a type of another case',
      'first',
      { type: 'noop' },
      'steps.first.type: is not a known step type; did you mean "NoOp"? Known: ',
    ],
    ['a list of inputs', 'first', { inputs: [] }, 'steps.first.inputs: is an array; an object is accepted'],
    [
      'an unknown edge key',
      'second',
      edge({ status: [] }),
      'steps.second.runAfter.first.status: is not known here; did',
    ],
    [
      'a string for an edge',
      'second',
      edge('Succeeded'),
      'steps.second.runAfter.first: is a string; an array or an object',
    ],
    [
      'null for an edge',
      'second',
      edge(null),
      'steps.second.runAfter.first: is null; an array or an object is accepted',
    ],
    ['no status', 'second', edge([]), 'steps.second.runAfter.first: is empty'],
    ['empty statuses', 'second', edge({ statuses: [] }), 'steps.second.runAfter.first.statuses: is empty'],
    [
      'an unknown status',
      'second',
      edge(['Succeded']),
      'first[0]: is not one of Succeeded, Failed, Skipped; did you mean "Succeeded"?',
    ],
    ['a status that never ends', 'second', edge(['Failed', 'running']), 'first[1]: is running: a step that runs after'],
    [
      'a status that never began',
      'second',
      edge({ statuses: ['Pending'] }),
      'first.statuses[0]: is Pending: a step that',
    ],
    [
      'a boolean condition',
      'second',
      when(false),
      'steps.second.runAfter.first.when: is a boolean; a string is accepted',
    ],
    ['a condition that does not parse', 'second', when('1 =='), 'first.when: expression "1 ==": Unexpected token: EOF'],
    ['a condition of another type', 'second', when('1 + 1'), 'gives int; a condition gives true or false'],
    ['an empty condition', 'second', when(''), 'steps.second.runAfter.first.when: expression "": is empty'],
    ['a condition over no step', 'second', when('steps.nope.output == 1'), 'first.when: reads steps.nope, but no step'],
    ['an unknown upstream', 'second', { runAfter: { frist: [] } }, 'steps.second.runAfter.frist'],
    ['itself upstream', 'first', edge(['Failed']), 'steps.first.runAfter.first: closes a cycle: first → first'],
    ['a cycle', 'first', { runAfter: { third: [] } }, 'steps.first.runAfter.third: is empty'],
    [
      'a number for retry',
      'first',
      { retry: 3 },
      'steps.first.retry: is a number; an object is accepted; write "retry": {"maxAttempts":3}',
    ],
    [
      'a list for runAfter',
      'second',
      { runAfter: ['first', 'third'] },
      'runAfter: is an array; an object is accepted; write "runAfter": {"first":["Succeeded"],"third":["Succeeded"]}',
    ],
    [
      'a text for runAfter',
      'second',
      { runAfter: 'first' },
      'runAfter: is a string; an object is accepted; write "runAfter": {"first":["Succeeded"]}',
    ],
    [
      'a text for statuses',
      'second',
      { runAfter: { first: 'Failed' } },
      'steps.second.runAfter.first: is a string; an array or an object is accepted, such as ["Failed"]',
    ],
    [
      'a misspelt key of retry',
      'first',
      { retry: { attempts: 3 } },
      'steps.first.retry.attempts: is not known here; known are maxAttempts,',
    ],
    [
      'no attempt',
      'first',
      { retry: { maxAttempts: 0 } },
      'steps.first.retry.maxAttempts: is out of range; at least 1',
    ],
    [
      'a factor below one',
      'first',
      { retry: { factor: 0.5 } },
      'steps.first.retry.factor: is out of range; at least 1',
    ],
    [
      'a negative wait',
      'first',
      { retry: { backoffSeconds: -1 } },
      'steps.first.retry.backoffSeconds: is out of range',
    ],
    ['no time', 'first', { timeoutSeconds: 0 }, 'steps.first.timeoutSeconds: is out of range; more than 0 is accepted'],
    ['more time than a timer has', 'first', { timeoutSeconds: 2_200_000 }, 'at most 2147483 is accepted'],
    [
      'a bad placeholder',
      'first',
      { inputs: { a: { b: ['${1 +}'] } } },
      'steps.first.inputs.a.b[0]: expression "1 +": ',
    ],
    [
      'an open placeholder',
      'first',
      { inputs: { a: '${trigger.key' } },
      'steps.first.inputs.a: expression "trigger.key": the',
    ],
    [
      'a read of no step',
      'second',
      { inputs: { message: '${steps.frist.output}' } },
      'no step has this key; did you mean "first"?',
    ],
    ['a step key without quotes', 'first', { inputs: { a: '${steps[7].output}' } }, 'a step key is text: steps["7"]'],
    [
      'a loop outside of a loop',
      'first',
      { inputs: { a: '${loop.item}' } },
      'steps.first.inputs.a: reads loop, which exists',
    ],
    [
      'a misspelt input',
      'third',
      { inputs: { url, methd: 'GET' } },
      'steps.third.inputs.methd: is not known here; did you mean "method"?',
    ],
    [
      'a misspelt input with a placeholder',
      'third',
      { inputs: { url, methd: '${trigger.key}' } },
      'did you mean "method"?',
    ],
    [
      'a missing input next to a placeholder',
      'third',
      { inputs: { body: '${trigger.body}' } },
      'steps.third.inputs.url: is missing',
    ],
    [
      'an input of the wrong kind',
      'third',
      { inputs: { url, timeoutSeconds: '5' } },
      'steps.third.inputs.timeoutSeconds: is a string',
    ],
    [
      'an input deep inside',
      'third',
      { inputs: { url, query: { a: 1 } } },
      'steps.third.inputs.query.a: is a number; a string',
    ],
    [
      'an unset variable',
      'third',
      { inputs: { url, headers: { 'x-any': 'env:NOPE' } } },
      'inputs.headers.x-any: the environment variable NOPE',
    ],
    [
      'a secret that does not fit',
      'third',
      { inputs: { url: 'env:NOT_A_URL' } },
      'steps.third.inputs.url: Invalid URL',
    ],
  ])('%s', (_rule, key, part, issue) => {
    const [first, ...others] = issuesWith(key, part).filter((each) => !each.startsWith('warning'));
    expect(first).toMatch(/^error flow\.json steps/);
    expect([first, ...others].join('\n')).toContain(issue);
  });

  test('every cycle, with its steps', () => {
    const runsAfter = (...keys: string[]) => ({
      type: 'NoOp',
      runAfter: Object.fromEntries(keys.map((key) => [key, ['Failed']])),
    });
    const issues = issuesAfter((manifest) => {
      manifest.steps = {
        a: runsAfter('b'),
        b: runsAfter('c', 'a'),
        c: runsAfter('a'),
        d: runsAfter('c'),
        e: runsAfter('f'),
        f: runsAfter('e'),
        g: runsAfter(),
      };
    });
    expect(issues).toEqual([
      'error flow.json steps.c.runAfter.a: closes a cycle: a → b → c → a',
      'error flow.json steps.b.runAfter.a: closes a cycle: a → b → a',
      'error flow.json steps.f.runAfter.e: closes a cycle: e → f → e',
    ]);
  });

  test('a cycle longer than the call stack', () => {
    const count = 12_000;
    const issues = issuesAfter((manifest) => {
      manifest.steps = Object.fromEntries(
        Array.from({ length: count }, (_, index) => [
          `s${index}`,
          { type: 'NoOp', runAfter: { [`s${(index + 1) % count}`]: ['Failed'] } },
        ]),
      );
    });
    expect(issues).toHaveLength(2);
    expect(issues[0]).toMatch(/closes a cycle: s0 → s1 → .* → s19 → 11961 more → s11981 → .* → s11999 → s0$/);
    expect(issues[1]).toContain('has 12000 steps');
  });
});

describe('warns of', () => {
  test.each<[string, string, Part, string]>([
    [
      'a credential in plain text',
      'third',
      { inputs: { url, headers: { 'X-Api-Key': 'plain' } } },
      'inputs.headers.X-Api-Key: contains a secret',
    ],
    [
      'a step that may not have ended',
      'second',
      { inputs: { message: '${steps.third.status}' } },
      'inputs.message: reads steps.third, which',
    ],
    [
      'a condition over such a step',
      'second',
      when('steps.third.status == "Failed"'),
      'first.when: reads steps.third, which this step does',
    ],
    [
      'a step that reads itself',
      'first',
      { inputs: { a: '${steps.first.status}' } },
      'inputs.a: reads steps.first, which this step does',
    ],
    [
      'a placeholder of another template language',
      'second',
      { inputs: { message: 'order {{ trigger.body.id }}' } },
      'inputs.message: contains {{ trigger.body.id }}, which stays as it is; an expression is written ${trigger.body.id}',
    ],
  ])('%s, read strictly too', (_rule, key, part, issue) => {
    for (const given of [rules, strictRules]) {
      expect(issuesWith(key, part, given)).toEqual([expect.stringMatching(/^warning flow\.json steps\./)]);
      expect(issuesWith(key, part, given)).toEqual([expect.stringContaining(issue)]);
    }
  });
});

describe('accepts', () => {
  test.each<[string, string, Part]>([
    ['an edge in any form', 'second', { runAfter: { first: {} } }],
    ['a step key of digits', '7', { type: 'NoOp' }],
    ['a secret that fits its input', 'third', { inputs: { url: 'env:HOOK_URL' } }],
    ['a placeholder for a number', 'third', { inputs: { url, timeoutSeconds: '${trigger.body.seconds}' } }],
    ['a placeholder in a credential', 'third', { inputs: { url, headers: { cookie: 'a=${trigger.body.a}' } } }],
    ['a plain header', 'third', { inputs: { url, headers: { accept: 'text/plain' } } }],
    ['an upstream of an upstream', 'third', { inputs: { url: `${url}\${steps.first.status}` } }],
    ['a reference where no secret belongs', 'second', { inputs: { message: 'env:NOPE' } }],
    ['a map of CEL', 'second', { inputs: { message: '${{"a": {"b": 1}}} ${{"a": 1}}' } }],
    ['an escaped placeholder', 'second', { inputs: { message: 'costs $${nothing}' } }],
  ])('%s', (_rule, key, part) => {
    expect(issuesWith(key, part, strictRules)).toEqual([]);
  });
});

test('refuses a secret in plain text where runs keep their inputs, which could not read it after the next deploy', () => {
  const withHeader = (header: string, pinInputs: boolean) =>
    issuesAfter((manifest) => {
      Object.assign(manifest, { pinInputs });
      manifest.steps.third = { ...manifest.steps.third, inputs: { url, headers: { 'X-Api-Key': header } } };
    }).filter((issue) => issue.includes('plain text, which is stored only sealed'));
  expect(withHeader('plain', true)).toEqual([expect.stringContaining('inputs.headers.X-Api-Key: is a secret')]);
  expect(withHeader('plain', false)).toEqual([]);
  expect(withHeader('env:TOKEN', true)).toEqual([]);
});
