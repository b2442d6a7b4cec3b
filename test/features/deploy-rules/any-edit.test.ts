import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { compareRevisions, gravest } from '../../../src/deploys/changes/index.ts';
import { diffSnapshots } from '../../../src/manifest/diff.ts';
import type { Json } from '../../../src/model/json.ts';
import { anyEdit, anySteps, type Steps, shuffled } from './any-edit.ts';
import { mergePatch } from './merge-patch.ts';
import { QUIET, SETTINGS, verdicts, withHistory } from './samples.ts';
import { openStage, type Stage, whatRan } from './stage.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});

const everywhere = (steps: Steps) => withHistory(...Object.keys(steps));
const compareSteps = (before: object, after: object, live = QUIET) =>
  compareRevisions({
    before: stage.load({ steps: before }).snapshot,
    after: stage.load({ steps: after }).snapshot,
    live,
    settings: SETTINGS,
  });

describe('any graph and any edit', () => {
  it('yields nothing for a graph and itself, whatever the order of its keys', () => {
    fc.assert(
      fc.property(anySteps, (steps) => {
        expect(compareSteps(steps, steps)).toEqual([]);
        expect(compareSteps(steps, shuffled(steps))).toEqual([]);
      }),
    );
  });

  it('yields a finding for every edit that changes the manifest, each of a rule that knows it', () => {
    fc.assert(
      fc.property(anyEdit, ({ before, after }) => {
        const snapshots = [stage.load({ steps: before }).snapshot, stage.load({ steps: after }).snapshot] as const;
        const findings = compareSteps(before, after, everywhere(before));
        expect(findings.length > 0).toBe(diffSnapshots(...snapshots).length > 0);
        expect(findings.map(({ rule }) => rule)).not.toContain('other-changed');
      }),
    );
  });

  it('yields the same verdicts for any order of the keys', () => {
    fc.assert(
      fc.property(anyEdit, ({ before, after }) => {
        const straight = verdicts(compareSteps(before, after, everywhere(before)));
        const mixed = verdicts(compareSteps(shuffled(before), shuffled(after), everywhere(before)));
        expect(mixed.sort()).toEqual(straight.sort());
      }),
    );
  });

  it('yields recipes that are loaded and break nothing', () => {
    fc.assert(
      fc.property(anyEdit, ({ before, after }) => {
        const findings = compareSteps(before, after, everywhere(before));
        const start: Json = JSON.parse(JSON.stringify({ steps: after }));
        const merged = findings.reduce((result, { recipe }) => mergePatch(result, recipe?.patch ?? {}), start);
        const { steps } = merged as { steps: object };
        expect(gravest(compareSteps(before, steps, everywhere(before)))).not.toBe('breaking');
      }),
    );
  });

  it('calls nothing safe that changes what a run in flight does', async () => {
    await fc.assert(
      fc.asyncProperty(anyEdit, fc.nat(8), fc.boolean(), async ({ before, after }, attempts, betweenClaimAndStart) => {
        const undisturbed = await stage.perform({ before: { steps: before } });
        const play = { before: { steps: before }, after: { steps: after }, attempts, betweenClaimAndStart };
        const disturbed = await stage.perform(play);
        const verdict = gravest(compareSteps(before, after, everywhere(before)));
        if (verdict === 'safe') expect(whatRan(disturbed)).toEqual(whatRan(undisturbed));
      }),
      { numRuns: 60 },
    );
  });
});
