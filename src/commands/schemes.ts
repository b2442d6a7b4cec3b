import { Command } from 'commander';
import { describeSchemes, type SchemeDescription } from '../webhooks/schemes/description.ts';
import { CAPTURED } from '../webhooks/schemes/spec.ts';
import { openContext, reporting } from './context.ts';

export function schemesCommand(): Command {
  return new Command('schemes')
    .description('List the signature schemes that a trigger may name, and what each signature covers')
    .option('--json', 'print everything that is known of each, as JSON')
    .action(reporting(schemes));
}

async function schemes(options: { json?: true }): Promise<void> {
  const { toolbox } = await openContext();
  const descriptions = describeSchemes(toolbox.gateSettings.schemes);
  process.stdout.write(options.json ? `${JSON.stringify(descriptions, null, 2)}\n` : table(descriptions));
}

function table(descriptions: readonly SchemeDescription[]): string {
  const head = ['SCHEME', 'HEADER', 'ALGORITHM', 'TIMESTAMP', 'ID HEADER', 'HANDSHAKE', 'COVERS', 'GRADE'];
  const rows = [head, ...descriptions.map(row)];
  const widths = head.map((_, column) => Math.max(...rows.map((cells) => cells[column]?.length ?? 0)));
  const line = (cells: readonly string[]) => cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
  const grades = Object.entries(CAPTURED).map(([grade, captured]) => `${grade}  ${captured}`);
  return `${[...rows.map((cells) => line(cells).trimEnd()), '', ...grades].join('\n')}\n`;
}

function row(scheme: SchemeDescription): string[] {
  const { timestamp, coverage } = scheme;
  return [
    [scheme.name, ...scheme.aliases].join(', '),
    scheme.headers.join(', ') || (scheme.kind === 'builtIn' ? 'in the body' : '-'),
    [scheme.algorithm, scheme.encoding].filter((part) => part !== null).join(' ') || '-',
    timestamp === null ? '-' : `${timestamp.in} ${timestamp.name} (${timestamp.unit})`,
    scheme.deliveryIdHeader ?? '-',
    scheme.handshakes.map(handshake).join(', ') || '-',
    coverage === null ? '?' : covered(coverage),
    scheme.grade ?? '?',
  ];
}

/** The publisher's own name of it may be the method's. */
function handshake({ name, method, bringsKey }: SchemeDescription['handshakes'][number]): string {
  return `${name === method ? method : `${method} ${name}`}${bringsKey ? ' (brings the key)' : ''}`;
}

function covered(coverage: NonNullable<SchemeDescription['coverage']>): string {
  const parts = Object.entries(coverage).filter(([, isCovered]) => isCovered);
  return parts.map(([part]) => part).join(' + ') || 'nothing';
}
