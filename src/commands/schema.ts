import { writeFile } from 'node:fs/promises';
import { Command } from 'commander';
import { manifestJsonSchema } from '../manifest/json-schema.ts';
import { reporting } from './context.ts';

export function schemaCommand(): Command {
  return new Command('schema')
    .description('Print the JSON Schema of manifests, for the completion of editors')
    .option('-o, --output <file>', 'write it to a file instead')
    .action(
      reporting(async ({ output }: { output?: string }) => {
        const text = `${JSON.stringify(manifestJsonSchema(), null, 2)}\n`;
        if (output === undefined) process.stdout.write(text);
        else await writeFile(output, text);
      }),
    );
}
