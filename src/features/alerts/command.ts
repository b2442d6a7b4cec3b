import { randomUUID } from 'node:crypto';
import { Command } from 'commander';
import { CommandError, openContext, reporting } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { print } from '../../telemetry/terminal.ts';
import { alertsStepTypes } from './step-types.ts';
import { isProgram } from './targets.ts';

/** Commands about alerts. */
function alertCommand(): Command {
  return new Command('alert')
    .helpGroup(HELP.history)
    .description('Test the alert targets of SLUICE_ALERTS')
    .addCommand(
      new Command('test')
        .description('Send a test message to each target, or to one, and print the answer')
        .argument('[name]', 'name of a target; default: all')
        .action(reporting(testAlerts)),
    );
}

/** Sends from this process, not through the service, so that a file can be tried before the service has it. */
async function testAlerts(name: string | undefined): Promise<void> {
  const { settings, extensions } = await openContext();
  const targets = (settings.alerts?.targets ?? []).filter((target) => name === undefined || target.name === name);
  if (targets.length === 0) {
    const names = settings.alerts?.targets.map((target) => target.name).join(', ') ?? '';
    throw new CommandError(
      settings.alerts === undefined
        ? 'SLUICE_ALERTS is not set: failures are not reported'
        : names === ''
          ? 'SLUICE_ALERTS names no target: failures are not reported'
          : `SLUICE_ALERTS has no target "${name}"; it has ${names}`,
    );
  }
  const results = await Promise.all(
    targets.map(async (target) => {
      const dedupKey = `test:${randomUUID()}`;
      const since = new Date().toISOString();
      const alert = { kind: 'test', severity: 'warning', flow: null, trigger: null, since, dedupKey } as const;
      const send = (status: 'firing' | 'resolved') =>
        extensions.of(alertsStepTypes)({
          target: target.name,
          message: {
            text: `${isProgram(target) ? '' : `${settings.serviceName}: `}test message for the target ${target.name}`,
            link: settings.alerts?.pageUrl,
            lines: [],
            more: 0,
            alert: { ...alert, status },
          },
          idempotencyKey: `${dedupKey}:${status}`,
          now: () => Date.now(),
          signal: new AbortController().signal,
        });
      const fired = await send('firing');
      // Programs would keep the test alert open otherwise.
      const result = fired.kind === 'succeeded' && isProgram(target) ? await send('resolved') : fired;
      const { status = null, answer = '' } = ('output' in result && result.output ? result.output : {}) as {
        status?: number | null;
        answer?: string;
      };
      const came = [status, answer].filter((part) => part !== null && part !== '').join(' ');
      const isDelivered = result.kind === 'succeeded';
      const why = result.kind === 'failed' ? `not delivered: ${result.message}` : 'delivered';
      print(`${target.name} (${target.type}): ${why}${came === '' ? '' : ` (answer: ${came})`}\n`);
      return isDelivered;
    }),
  );
  if (results.includes(false)) process.exitCode = 1;
}

export const alertsCommand: CommandPart = { name: 'alerts', commands: [alertCommand] };
