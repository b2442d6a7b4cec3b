import { Command } from 'commander';
import { openContext, reporting, writeOutput } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import type { PreparedExtensions } from '../../config/extensions.ts';
import { print } from '../../telemetry/terminal.ts';
import { PRESETS } from '../../webhooks/networks/presets.ts';
import { namedSchemes } from '../../webhooks/schemes/names.ts';
import { editorSchema } from '../schemes/editor-schema.ts';

function makeSchema(): Command {
  return new Command('schema')
    .helpGroup(HELP.flows)
    .description(
      'Print the JSON Schema of manifests for editors, including step types and schemes of the config module',
    )
    .option('-o, --output <file>', 'write it to this file instead')
    .action(
      reporting(async ({ output }: { output?: string }) => {
        const text = schemaText((await openContext()).extensions);
        if (output === undefined) print(text);
        else await writeOutput(output, text);
      }),
    );
}

/** The schema as the text of a file, for this installation's step types and schemes. */
export function schemaText({ handlers, gates }: Pick<PreparedExtensions, 'handlers' | 'gates'>): string {
  const schemes = namedSchemes(gates.settings.schemes).flatMap(({ name, aliases }) => [name, ...aliases]);
  const presets = PRESETS.map(({ name }) => name);
  const schema = JSON.stringify(editorSchema({ steps: [...handlers.values()], schemes, presets }), null, 1);
  // One line for each field shows changes well; indentation would be a fifth of the packed file, and editors need none.
  return `${schema.replace(/\n +/g, '\n')}\n`;
}

export const schemaCommand: CommandPart = { name: 'schema', commands: [makeSchema] };
