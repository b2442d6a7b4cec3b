import { describe, expect, it } from 'vitest';
import { concludeCheck, concludeDeploy, renderDeployed, renderOutcomes } from '../../src/commands/render-outcomes.ts';
import { gravest } from '../../src/deploys/changes/index.ts';
import type { DeployOutcome, Finding, FindingClass, Override } from '../../src/model/finding.ts';
import { compare, FLOW_ID, flow, inFlight, noOp } from '../features/deploy-rules/samples.ts';

const before = flow({ fetch: noOp(), approve: noOp('fetch'), pay: noOp('approve') });

const outcome = (change: Partial<DeployOutcome> = {}): DeployOutcome => {
  const findings = change.findings ?? [];
  return {
    flowId: FLOW_ID,
    name: 'Orders',
    version: '1',
    action: 'updated',
    class: gravest(findings),
    access: 'same',
    routes: [],
    revision: 2,
    runsInFlight: 0,
    refusal: null,
    ...change,
    findings,
  };
};
const ofClass = (...classes: FindingClass[]) =>
  outcome({
    findings: classes.map((each): Finding => ({ rule: 'r', class: each, path: 'p', message: 'm', consequence: 'c' })),
  });

describe('the text of a plan', () => {
  const after = flow({ fetch: noOp(), pay: noOp('fetch') }, { version: '2' });
  const live = inFlight({ fetch: 'ended', approve: 'waits' }, { fetch: 'runs' });
  const outcomes = [
    outcome({
      version: '2',
      action: 'refused',
      findings: compare(before, after, live),
      runsInFlight: 2,
      refusal: [
        'The change breaks what is stored. Follow the recipe of each finding, or allow it.',
        '- a step is gone',
        'Keep `approve`, but make it do nothing:',
        '  1. Take it.',
      ].join('\n'),
    }),
    outcome({ name: 'Reports', action: 'unchanged' }),
  ];
  const text = renderOutcomes(outcomes, concludeCheck(outcomes, [], 0));

  it('reads as a reviewer expects it', () => {
    let from = 0;
    for (const part of EXPECTED) {
      expect(text.slice(from)).toContain(part);
      from = text.indexOf(part, from) + part.length;
    }
  });

  it('is plain ASCII and fits a code block', () => {
    expect(text).toMatch(/^[\n\x20-\x7e]*$/);
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(110);
    expect(text).not.toContain('```');
  });
});

describe('the exit code', () => {
  const rollback = { action: 'refused', rollbackTo: 1 } as const;

  it.each<[string, DeployOutcome[], Override[], number]>([
    ['of nothing', [], [], 0],
    ['of what is safe', [ofClass('safe')], [], 0],
    ['of a caution', [ofClass('safe', 'caution'), ofClass('safe')], [], 1],
    ['of what breaks', [ofClass('caution'), ofClass('breaking')], [], 2],
    ['of an allowed caution', [ofClass('caution')], ['caution'], 0],
    ['of an allowed caution beside what breaks', [ofClass('breaking', 'caution')], ['caution'], 2],
    ['of an allowed break with a caution', [ofClass('breaking', 'caution')], ['breaking'], 1],
    ['of a caution that runs in flight refuse', [{ ...ofClass('caution'), action: 'refused', runsInFlight: 1 }], [], 1],
    ['of what is refused for another reason', [{ ...ofClass('safe'), action: 'refused' }], ['breaking', 'caution'], 2],
    ['of an earlier revision', [{ ...ofClass('caution'), ...rollback, runsInFlight: 1 }], ['breaking', 'caution'], 2],
    ['of an earlier revision that is allowed', [{ ...ofClass('safe'), rollbackTo: 1 }], ['rollback'], 0],
    ['of all that is allowed', [ofClass('breaking', 'caution')], ['breaking', 'caution'], 0],
  ])('%s', (_, outcomes, allow, expected) => {
    const conclusion = concludeCheck(outcomes, allow, 0);
    expect(conclusion.code).toBe(expected);
    expect(renderOutcomes(outcomes, conclusion)).toMatch(new RegExp(`Exit code ${expected}: .*\\n$`));
  });

  it('is 2 while a manifest has an error, whatever the others would do, and the last line says so', () => {
    const conclusion = concludeCheck([ofClass('safe')], [], 1);
    expect(conclusion.code).toBe(2);
    expect(renderOutcomes([ofClass('safe')], conclusion)).toMatch(
      /Exit code 2: a manifest has an error; .* goes on without that flow\.\n$/,
    );
  });

  it.each<[string, DeployOutcome[], number]>([
    ['of a caution that nothing refuses', [ofClass('caution')], 0],
    ['of a caution that runs in flight refuse', [{ ...ofClass('caution'), action: 'refused', runsInFlight: 1 }], 1],
    ['of what breaks', [{ ...ofClass('breaking'), action: 'refused' }], 2],
  ])('of a deploy, %s, is the one in its last line', (_, outcomes, expected) => {
    const conclusion = concludeDeploy(outcomes, []);
    expect(conclusion.code).toBe(expected);
    expect(renderOutcomes(outcomes, conclusion)).toContain(`Exit code ${expected}: `);
  });

  it('of a deploy that was done tells what became of each flow, and no exit code', () => {
    const outcomes = [outcome(), outcome({ action: 'refused' }), outcome({ action: 'unchanged' })];
    const text = renderDeployed(outcomes);
    expect(text).toMatch(/\n\n3 flows: 1 updated, 1 unchanged, 1 refused\.\n$/);
    expect(text).not.toContain('Exit code');
    expect(renderDeployed([])).toBe('0 flows: nothing to deploy.\n');
  });
});

const EXPECTED = [
  `Orders (${FLOW_ID}), version 1 -> 2, revision 2: BREAKING, refused\n====`,
  '  Refused: The change breaks what is stored. Follow the recipe of each finding, or allow it.\n  2 runs are in flight.\n\n  BREAKING\n  - steps.approve (step-removed)\n',
  '    The step `approve` was removed, and stored runs have records of it.\n    {"type":"NoOp","inputs":{},"runAfter":',
  ' -> (none)\n    Consequence: The manifest would no longer explain',
  '    In flight:   1 run waits in `approve`, 1 has not reached it (1 is in `fetch`)\n    Advice:      Keep the step',
  '    Recipe:      Keep `approve`, but make it do nothing\n      1. Put `approve` back',
  'not before 2026-03-31T12:00:00.000Z.\n      Merge into the manifest:\n      {\n        "steps": {\n          "approve": {',
  '                "when": "false"\n',
  '  CAUTION\n  - steps.pay.runAfter (run-after-changed)\n',
  '  SAFE\n  - version (version-changed)\n    The version changed.\n    "1" -> "2"\n',
  `Reports (${FLOW_ID}), version 1, revision 2: unchanged\n\n`,
  '2 flows: 1 breaking, 1 unchanged. Exit code 2: a deploy refuses breaking changes, conflicts and wider access.\n',
];
