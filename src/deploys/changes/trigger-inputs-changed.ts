import { differences } from '../../manifest/diff.ts';
import { type ChangeRule, findingAt, keptTriggers } from './change.ts';
import { jsonOf } from './json-of.ts';

/** Inputs of manual triggers, which nothing but people read. */
export const triggerInputsChanged: ChangeRule = (change) =>
  keptTriggers(change).flatMap(({ key, before, after }) => {
    if (before.type !== 'manual' || after.type !== 'manual') return [];
    return differences(jsonOf(before.inputs), jsonOf(after.inputs)).map((difference) =>
      findingAt(['triggers', key, 'inputs', ...difference.at], {
        rule: 'trigger-inputs-changed',
        class: 'safe',
        before: difference.before,
        after: difference.after,
        message: `Inputs of the manual trigger \`${key}\` are ${difference.kind}.`,
        consequence: 'No run reads them.',
      }),
    );
  });
