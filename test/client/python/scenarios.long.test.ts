import { describeWithPackages } from "../../support/debian.ts";
import { startService, type TestService } from "../../support/service.ts";
import { readScenarios, runScenario } from "../scenario.ts";
import {
  installPythonPackage,
  PYTHON_PACKAGES,
  type PythonEnvironment,
  type PythonLibrary,
  startPythonLibrary,
} from "./python-library.ts";

describeWithPackages("the scenarios of the client libraries in Python", PYTHON_PACKAGES, function () {
  // A driver that fails does not answer.
  this.timeout(60_000);
  let service: TestService;
  let environment: PythonEnvironment;
  before("builds and installs the wheel, and starts a server", async function () {
    this.timeout(300_000);
    environment = await installPythonPackage();
    service = await startService();
  });
  after("stops the server", async () => {
    await service?.stop();
    await environment?.remove();
  });

  for (const client of ["blocking", "asyncio"] as const) {
    describe(`with the ${client} client`, () => {
      let library: PythonLibrary;
      before("starts Python", () => {
        library = startPythonLibrary(environment, client);
      });
      after("stops it", () => library?.close());

      for (const scenario of readScenarios())
        it(scenario.name, () =>
          runScenario(service, ({ grpcUrl }, apiKey) => library.connect(grpcUrl, apiKey), scenario),
        );
    });
  }
});
