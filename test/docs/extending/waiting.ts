import { defineConfig, defineHandler, z } from '@sluicehq/sluice';

const waitForApproval = defineHandler({
  type: 'WaitForApproval',
  inputs: z.object({ hours: z.number() }),
  waitsFor: () => ['approved'],
  run({ inputs, resumed, now }) {
    if (resumed?.signal) return { kind: 'succeeded', output: resumed.signal.body };
    const reminders = typeof resumed?.state === 'number' ? resumed.state : 0;
    if (reminders === inputs.hours) {
      return { kind: 'failed', code: 'not_approved', message: 'no one approved', retryable: false };
    }
    return { kind: 'waiting', signalName: 'approved', until: now() + 3_600_000, state: reminders + 1 };
  },
});

export default defineConfig({ handlers: [waitForApproval] });
