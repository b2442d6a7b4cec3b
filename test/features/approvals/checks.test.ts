import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../../src/config/steps.ts';
import { waitChecks } from '../../../src/features/approvals/checks.ts';
import { handlerTable } from '../../../src/flows/handlers/index.ts';
import { formatIssue } from '../../../src/manifest/issues.ts';
import { parseManifest } from '../../../src/manifest/load.ts';

const PUBLIC = 'https://flows.example.com';
const URL_OF = (key: string) => `\${waits.${key}.url}`;

/** The issues that `sluice check` finds in a flow with these steps. */
function issuesOf(steps: object, publicUrl: string | null = PUBLIC): string[] {
  const manifest = { id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', version: '1', steps };
  const { issues } = parseManifest(JSON.stringify(manifest), 'flow.json', {
    handlers: handlerTable(stepTypes().handlers),
    readSecret: () => ({ error: 'none' }),
    strict: true,
    checks: [waitChecks(() => publicUrl ?? undefined)],
  });
  return issues.map(formatIssue);
}

const wait = (inputs: object = {}) => ({ type: 'WaitForSignal', inputs: { choices: ['yes', 'no'], ...inputs } });
const tell = (value: unknown) => ({ type: 'Transform', inputs: { value } });

describe('a step that reads waits', () => {
  it.each([
    ['of a sibling', { tell: tell(URL_OF('ok')), ok: wait() }],
    [
      'of a step around its loop',
      { each: { type: 'ForEach', forEach: [1], steps: { tell: tell(URL_OF('ok')) } }, ok: wait() },
    ],
    [
      'of a sibling in its loop',
      { each: { type: 'ForEach', forEach: [1], steps: { tell: tell(URL_OF('ok')), ok: wait() } } },
    ],
    ['of a step that the data names', { tell: tell(`\${waits[trigger.body.which].url}`), ok: wait() }],
    ['of none: a variable has that name', { tell: tell(`\${trigger.body.list.map(waits, waits.ms)}`), ok: wait() }],
  ])('is right %s', (_what, steps) => {
    expect(issuesOf(steps)).toEqual([]);
  });

  it.each([
    [
      'of no step',
      { tell: tell(URL_OF('aproval')), approval: wait() },
      'no step that it sees has this key; did you mean "approval"?',
    ],
    [
      'of a step inside a loop',
      { tell: tell(URL_OF('ok')), each: { type: 'ForEach', forEach: [1], steps: { ok: wait() } } },
      'no step that it sees has this key',
    ],
    [
      'of a step that does not wait',
      { tell: tell(URL_OF('no')), no: { type: 'NoOp' } },
      'the step is a NoOp; a WaitForSignal step has a link',
    ],
    [
      'of a step without choices',
      { tell: tell(URL_OF('ok')), ok: { type: 'WaitForSignal', inputs: { signalName: 'ok' } } },
      'the step has no choices, as in',
    ],
    [
      'of a step whose signal is worked out',
      { tell: tell(URL_OF('ok')), ok: wait({ signalName: `\${trigger.body.name}` }) },
      'an expression gives its signalName',
    ],
    [
      'in a condition',
      { ok: wait(), tell: { type: 'NoOp', runAfter: { ok: { when: 'waits.ok.url != ""' } } } },
      'steps.tell.runAfter.ok.when: reads waits, which only inputs of steps read',
    ],
    [
      'in the items of a loop',
      { ok: wait(), each: { type: 'ForEach', forEach: [URL_OF('ok')], steps: { a: { type: 'NoOp' } } } },
      'steps.each.forEach[0]: reads waits, which only inputs of steps read',
    ],
    [
      'for a run that it starts',
      {
        ok: wait(),
        go: { type: 'RunFlow', inputs: { flow: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a11', body: URL_OF('ok') } },
      },
      'steps.go.inputs.body: reads waits: the link would be stored in the run that it starts',
    ],
    ['by another name', { tell: tell(`\${waits.ok.link}`), ok: wait() }, 'a step has no "link"; it has url'],
  ])('is wrong %s', (_what, steps, message) => {
    expect(issuesOf(steps)).toEqual([expect.stringContaining(message)]);
    expect(issuesOf(steps)[0]).toMatch(/^error /);
  });

  it('is told of where the service does not know its address', () => {
    expect(issuesOf({ tell: tell(URL_OF('ok')), ok: wait() })).toEqual([]);
    const [told, ...others] = issuesOf({ tell: tell(URL_OF('ok')), ok: wait() }, null);
    expect(others).toEqual([]);
    expect(told).toMatch(/^warning .*steps\.tell\.inputs\.value: reads waits, but SLUICE_PUBLIC_URL is not set/);
  });
});

it.each([
  ['one choice', ['yes'], 'at least 2 entries are accepted'],
  ['a choice twice', ['yes', 'yes'], 'names a choice twice'],
  ['a choice that shows nothing', ['yes', ' '], 'expected 1 to 64 characters in one line'],
  ['a choice with a line break', ['yes', 'a\nb'], 'expected 1 to 64 characters in one line'],
  ['a choice that is worked out', ['yes', `\${trigger.body.no}`], 'contains an expression'],
])('a step with %s is refused', (_what, choices, message) => {
  expect(issuesOf({ ok: wait({ choices }) })).toEqual([expect.stringContaining(message)]);
});
